"""The sentence about a night."""

from __future__ import annotations

from typing import Any

from tpu_fleet.history.causes import OWN_DISK, of_checkpoints
from tpu_fleet.history.story import Attempt, RunStory
from tpu_fleet.history.verdict import verdict_of
from tpu_fleet.workers.ask.run_view import RunView

HOUR = 3600.0


def run(name: str, *attempts: Attempt, state: str = "running", **more: Any) -> RunStory:
    view = RunView(name, "pair", speed=1.0)
    return RunStory(
        "pair", name, attempts=attempts, state=state, chips=8, until=8 * HOUR, view=view, **more
    )


def said(*runs: RunStory, since: float = 0.0) -> str:
    return verdict_of(runs, since, 8 * HOUR).text()


def test_a_quiet_time_is_called_quiet() -> None:
    assert said() == "In 8 h: no run failed, and nothing interrupted one."
    assert said(run("a", Attempt(1, 0.0))) == (
        "In 8 h: no run failed, and nothing interrupted one; 0.0 of 64.0 chip hours lost."
    )


def test_failures_interruptions_and_what_they_cost() -> None:
    a = run(
        "a",
        Attempt(1, 0.0, HOUR, "rebooted", step=50, again=1800, down=0.5 * HOUR),
        Attempt(2, 1.5 * HOUR, 2 * HOUR, "stopped", down=HOUR),
        Attempt(3, 3 * HOUR, 4 * HOUR, "rebooted", down=0.0),
        Attempt(4, 4 * HOUR),
    )
    b = run("b", Attempt(1, 0.0, HOUR, "crashed"), state="failed")
    # 30 minutes down and 1,800 steps again, of eight chips; an hour by hand.
    assert said(a, b) == ("In 8 h: 1 run failed, 1 crash, 2 reboots; 16.0 of 72.0 chip hours lost.")
    assert verdict_of([a, b], 0.0, 8 * HOUR).failed == ("pair/b",)


def test_what_was_before_does_not_count() -> None:
    a = run("a", Attempt(1, 0.0, HOUR, "rebooted", down=HOUR), Attempt(2, 2 * HOUR))
    b = run("b", Attempt(1, 0.0, HOUR, "crashed"), state="failed")
    assert said(a, b, since=4 * HOUR) == (
        "In 4 h: no run failed, and nothing interrupted one; 0.0 of 32.0 chip hours lost."
    )


def test_checkpoints_that_a_preemption_deleted_are_named() -> None:
    kept = Attempt(1, 0.0, HOUR, "preempted", of_checkpoints("bucket"), down=0.0)
    gone = Attempt(1, 0.0, HOUR, "preempted", of_checkpoints(OWN_DISK), down=0.0)
    assert "1 preemption; " in said(run("a", kept, Attempt(2, HOUR)))
    assert "no checkpoint was deleted" in said(run("a", kept, Attempt(2, HOUR)))
    both = said(run("a", kept, Attempt(2, HOUR)), run("b", gone, Attempt(2, HOUR)))
    assert "2 preemptions; " in both
    assert both.endswith("checkpoints deleted with their slice: pair/b.")
