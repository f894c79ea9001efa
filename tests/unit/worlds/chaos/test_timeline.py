"""What the checker says of a page and of event logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chaos.timeline import UNHEARD, missing
from fleet_past import status_of

from tpu_fleet.history.look import of_runs
from tpu_fleet.history.record import stories
from tpu_fleet.history.store import History, Look
from tpu_fleet.history.story import QUIET
from tpu_fleet.page.model import page_of
from tpu_fleet.page.render import html_of
from tpu_fleet.workers.ask.run_view import Run

T = 1_795_640_000.0


def line(at: float, name: str, attempt: int = 1, **more: Any) -> dict[str, Any]:
    return {"at": T + at, "attempt": attempt, "event": name, **more}


# As the agents of a recorded run of the chaos test wrote it, one of each kind.
LOGS = {
    ("quad", 0, "m0"): [
        line(0, "agent-started", 0, program="none"),
        line(10, "attempt-started"),
        line(100, "attempt-ended", exit_code=143, cause="worker 1: killed by signal 9", step=90),
        line(110, "attempt-started", 2),
        line(200, "peer-lost", 2, peer=1),
        line(201, "attempt-ended", 2, exit_code=143, cause="worker 1 is lost", step=170),
        line(250, "peer-back", 2, peer=1),
        line(260, "attempt-started", 3),
        line(300, "progress", 3, step=200, numbers={"loss": 0.5}),
        line(400, "attempt-ended", 3, exit_code=143, cause="worker 1 rebooted", step=290),
        line(420, "attempt-started", 4),
        line(500, "attempt-ended", 4, exit_code=0, cause="", step=400),
        line(501, "run-succeeded", 4),
    ],
    ("quad", 1, "m1"): [
        line(11, "attempt-started"),
        line(99, "attempt-ended", exit_code=None, signal=9, cause="", step=90),
        line(111, "attempt-started", 2),
        line(222, "attempt-ended", 2, exit_code=143, cause="lost the leader", step=170),
        line(261, "attempt-started", 3),
        line(330, "clock-jumped", 3, seconds=3600.0),
        line(340, "disk-low", 3, what="/mnt/saved has 0 MB left"),
        line(350, "maintenance-announced", 3, when="soon"),
        line(410, "agent-started", 3, program="running"),
        line(411, "attempt-ended", 3, exit_code=None, cause="rebooted", step=290),
        line(421, "attempt-started", 4),
        line(501, "attempt-ended", 4, exit_code=0, cause="", step=400),
    ],
}


def kept(path: Path, logs: dict[tuple[str, int, str], list[dict[str, Any]]]) -> History:
    """Write the history of a watcher that has asked the workers once."""
    history = History(path)
    found = Look(T + 600)
    seen = []
    for (name, worker, _machine), log in logs.items():
        past = {"events": log, "place": None}
        told = {"run": name, "state": "succeeded", "attempt": 4, "worker": worker, "past": past}
        seen.append(Run(f"{name}-w{worker}", name, worker, "succeeded", status_of(told), T + 600))
    of_runs(found, seen)
    history.add(found)
    return history


def test_each_fault_of_the_event_log_stands_in_the_time_line(tmp_path: Path) -> None:
    history = kept(tmp_path / "history.db", LOGS)
    runs = stories(history, 0.0, T + 600)
    assert missing(LOGS, [], runs) == []
    assert [(one.number, one.kind) for one in runs[0].attempts] == [
        (1, "crashed"), (2, "lost"), (3, "maintenance"), (4, "succeeded"),
    ]  # fmt: skip
    html = html_of(page_of(history, "local-project", T + 600))
    for words in ("worker 1: killed by signal 9", "worker 1 is lost", "worker 1 rebooted",
                  "clock was set", "disk is nearly full", "maintenance announced"):  # fmt: skip
        assert words in html
    history.close()


FAULTS = [
    (place, number)
    for place, log in LOGS.items()
    for number, event in enumerate(log)
    if event["event"] not in QUIET - {"attempt-ended"} and event.get("exit_code") != 0
]


@pytest.mark.parametrize(("place", "number"), FAULTS)
def test_a_fault_that_the_page_does_not_show_is_found(
    tmp_path: Path, place: tuple[str, int, str], number: int
) -> None:
    event = LOGS[place][number]
    ends = event["event"] == "attempt-ended"

    def told(other: dict[str, Any]) -> bool:
        # An interruption is there as long as one worker tells of it.
        same = ends and other["event"] == "attempt-ended" and other["attempt"] == event["attempt"]
        return not same and other is not event

    # It began the next one all the same, and was not the last.
    without = {there: [one for one in log if told(one)] for there, log in LOGS.items()}
    if ends:
        for log in without.values():
            log[:] = [one for one in log if one["attempt"] != event["attempt"]]
    history = kept(tmp_path / "history.db", without)
    found = missing(LOGS, [], stories(history, 0.0, T + 600))
    history.close()
    assert any(str(event) in one for one in found), found


def test_the_last_words_of_a_lost_machine_may_be_unheard(tmp_path: Path) -> None:
    history = kept(tmp_path / "history.db", LOGS)
    runs = stories(history, 0.0, T + 600)
    history.close()
    more = line(9000, "hang", 9)
    early = line(9000 - UNHEARD - 1, "hang", 9)
    place = ("quad", 1, "of the past")
    assert missing({place: [more]}, [place], runs) == []
    assert len(missing({place: [early, more]}, [place], runs)) == 1
    assert len(missing({place: [more]}, [], runs)) == 1
