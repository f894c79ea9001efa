"""A run's archive in the local cloud's bucket: all is in it once, whatever the bucket does."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import LOG, Life
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.archive import RunArchive
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from emulator import Emulator

from tpu_fleet.workers.archive.bring import bring
from tpu_fleet.workers.archive.declared import Kept
from tpu_fleet.workers.archive.events import events_of

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
OFTEN = {**harness.TIMING, "archive": 0.5}
COUNTS = "for n in $(seq 1 {}); do echo line $n; sleep 0.05; done; mkdir -p plots; echo P > plots/a"


@pytest.fixture
def lab(cloud: Emulator) -> Emulator:
    asked = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(asked, json={"name": "lab"}, timeout=30).raise_for_status()
    return cloud


def given(lab: Emulator, **more: Any) -> dict[str, Any]:
    place = {"archive": "gs://lab/all", "storage": lab.url.rstrip("/"), "slice": "pair"}
    return {**place, "timing": OFTEN, "results": ["plots"], **more}


def kept(lab: Emulator) -> Kept:
    apis = GoogleApis(Client("lab", endpoint=lab.url))
    archive = RunArchive(apis, "lab", "all/demo/")
    return Kept("demo", "gs://lab/all", archive, archive.lives())


def written(worker: Any) -> str:
    """Return the log as it is on the machine, with the ends of lines of a terminal."""
    path = worker.folder / "log/run.log"
    return str(path.read_bytes().decode()) if path.exists() else ""


def log_of(lab: Emulator, life: Life | None = None) -> str:
    """Return the log of the only life, or of one."""
    found = kept(lab)
    (one,) = [life] if life else found.lives
    return b"".join(new for f, new, _ in found.archive.frames(one) if f.stream == LOG).decode()


def test_what_a_run_leaves_is_in_the_bucket_once(gang: Make, lab: Emulator, tmp_path: Path) -> None:
    workers = gang(COUNTS.format(40), **given(lab))
    for worker in workers:
        worker.up()
    for worker in workers:
        worker.wait(state="succeeded")
        # The end of an attempt is written at once.
        harness.wait_until(
            lambda worker=worker: any(
                log_of(lab, one) == written(worker)
                and one.results
                and "attempt-ended" in told(lab, one)
                for one in kept(lab).lives
                if one.host == f"pair-w{worker.index}"
            ),
            "the whole log",
            30,
        )
    found = kept(lab)
    lives = sorted(found.lives, key=lambda one: one.host)
    assert [one.host for one in lives] == ["pair-w0", "pair-w1"]
    for life, worker in zip(lives, workers, strict=True):
        names = told(lab, life)
        assert names == [one["event"] for one in worker.events()][: len(names)]
        folder = tmp_path / life.host
        assert bring(found, life, folder) == 3
        assert bring(kept(lab), life, folder) <= 2  # an event more may have come
        assert (folder / "run.log").read_bytes().decode() == written(worker)
        assert (folder / "results/plots/a").read_text() == "P\n"
        assert json.loads((folder / "events.jsonl").read_text().splitlines()[0])["event"]
    status = workers[1].status()
    assert (status["problems"], status["archive"]["life"]) == ([], lives[1].name)


def told(lab: Emulator, life: Life) -> list[str]:
    """Return the names of the events in a life."""
    return [one.event.name for one in events_of(kept(lab), life)]


# In CI the unit test_archive_round.py has answers that are lost and requests that are refused.
@pytest.mark.night
@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "unavailable", "probability": 0.4},
        {"kind": "rate_limit", "probability": 0.4},
        {"kind": "drop", "when": "after", "probability": 0.4},
        {"kind": "drop", "when": "before", "probability": 0.4},
    ],
    ids=lambda fault: "-".join(map(str, fault.values())),
)
def test_faults_of_the_bucket_cost_no_line(
    gang: Make, lab: Emulator, fault: dict[str, Any]
) -> None:
    lab.fault(**fault, match={"method": "POST"})
    (worker,) = gang(COUNTS.format(100), workers=1, **given(lab))
    worker.up()
    worker.wait(state="succeeded")
    lab.control("faults", method="DELETE")
    harness.wait_until(lambda: log_of(lab) == written(worker), "the whole log", 30)
    assert [one for one in written(worker).splitlines() if one.startswith("line")] == [
        f"line {number}" for number in range(1, 101)
    ]


def test_an_agent_that_is_killed_goes_on_in_the_same_life(gang: Make, lab: Emulator) -> None:
    (worker,) = gang(COUNTS.format(100), workers=1, **given(lab))
    worker.up()
    for _time in range(3):
        worker.wait_running(attempt=1)
        time.sleep(1)
        worker.kill_agent()
        worker.up()
    worker.wait(state="succeeded")
    harness.wait_until(lambda: log_of(lab) == written(worker), "the whole log", 30)


# In CI the unit test_archive_watch.py has the last round, and what a bucket that is away shows.
@pytest.mark.night
def test_the_end_of_the_agent_waits_for_the_last_lines(gang: Make, lab: Emulator) -> None:
    more = {"timing": {**harness.TIMING, "archive": 1000.0}}
    (worker,) = gang("echo first; exec sleep 1000", workers=1, **given(lab, **more))
    worker.up()
    worker.wait_running(attempt=1)
    harness.wait_until(lambda: "first" in written(worker), "the first line")
    worker.stop()
    assert log_of(lab) == written(worker)
    assert "attempt 1" in written(worker)


@pytest.mark.night
def test_a_bucket_that_is_not_there_delays_nothing_and_is_said(
    gang: Make, lab: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.fault("slow", seconds=3, match={"method": "POST"})
    (worker,) = gang(
        "echo first; sleep 1",
        workers=1,
        **given(lab, archive="gs://gone/all", timing={**OFTEN, "archive_late": 4.0}),
    )
    begun = time.monotonic()
    worker.up()
    worker.wait(state="succeeded", attempt=1)
    assert time.monotonic() - begun < 15
    problem = harness.wait_until(lambda: worker.status()["problems"], "the problem", 20)[0]
    assert problem == "archive: 0m behind: there is no such bucket: correct its address"
