"""Slices build a venv when the first run that needs it comes, by the machines' own apply agent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import beside
import pytest

harness = sys.modules["queue_agent_harness"]
building = beside.load(Path(__file__).with_name("building.py"), "queue_agent_building")


def wait_until(lab: Any, look: Callable[[], Any], what: str) -> None:
    """Wait; if it does not come, say what the agents have said."""
    try:
        harness.wait_until(look, what, 60)
    except AssertionError as error:
        logs = {str(path): path.read_text() for path in lab.base.glob("*/*-agent.log")}
        raise AssertionError(f"{error}; {lab.queue.all().states}; {logs}") from None


SAYS = "python -c 'import sys; print(sys.prefix)'"


def slice_of(lab: Any, name: str, workers: int = 1) -> Any:
    made = lab.slice(name, workers, up=False, declares=building.declares)
    for worker in made:
        building.can_build(worker.root)
        worker.up()
    return made


def builds(worker: Any) -> int:
    path = worker.root / "builds"
    return len(path.read_text().split()) if path.exists() else 0


def why(lab: Any, name: str) -> str:
    said = lab.queue.said().get(name)
    return str(said.doing.why) if said else ""


def test_all_workers_build_what_the_first_run_needs_and_keep_it(lab: Any) -> None:
    workers = slice_of(lab, "pair", 2)
    lab.submit("one", SAYS, venv=building.VENV)
    wait_until(lab, lambda: why(lab, "pair") == "builds venv jax", "it says that it builds")
    told = lab.queue.said()["pair"].doing
    assert (told.run, told.venv, lab.state("one").claims) == ("one", "jax", 0)
    lab.wait("one", "done")
    # All workers have one folder here, as each has its own on machines.
    for worker in workers:
        assert f"{lab.base}/venvs/jax\n" in worker.log("one")
    lab.submit("two", SAYS, venv=building.VENV)
    lab.wait("two", "done")
    assert [builds(worker) for worker in workers] == [1, 1]
    assert why(lab, "pair") == ""


# In CI tests/unit/roles/run_queue has what is decided then.
@pytest.mark.night
def test_a_build_that_fails_is_no_failure_of_the_run_and_is_tried_again(lab: Any) -> None:
    workers = slice_of(lab, "pair", 2)
    (workers[1].root / "broken").touch()
    lab.submit("three", SAYS, venv=building.VENV)
    wait_until(lab, lambda: "failed" in why(lab, "pair"), "it says that it failed")
    failed = "build of venv jax failed on pair-w1: Cannot build the environment. No index has it."
    assert why(lab, "pair") == failed
    # What needs no venv goes on meanwhile.
    lab.submit("four", "true")
    lab.wait("four", "done")
    run = lab.state("three")
    assert (run.state, run.claims, run.failures) == ("waiting", 0, 0)
    (workers[1].root / "broken").unlink()
    lab.wait("three", "done", 300)
    assert [builds(worker) for worker in workers] == [1, 1]


@pytest.mark.night
def test_a_slice_that_has_the_venv_takes_the_run_and_of_two_others_one_builds(lab: Any) -> None:
    idle = [slice_of(lab, name)[0] for name in ("solo", "wide")]
    lab.submit("first", SAYS, venv=building.VENV)
    lab.wait("first", "done")
    assert sorted(map(builds, idle)) == [0, 1]
    lab.submit("next", SAYS, venv=building.VENV)
    lab.wait("next", "done")
    assert sorted(map(builds, idle)) == [0, 1]
    assert lab.state("next").last == lab.state("first").last


@pytest.mark.night
def test_a_run_that_needs_nothing_does_not_overtake_one_that_needs_a_build(lab: Any) -> None:
    (worker,) = slice_of(lab, "solo")
    lab.submit("big", SAYS, venv=building.VENV)
    lab.submit("small", "true")
    lab.wait("big", "done")
    lab.wait("small", "done")
    assert lab.state("big").started_at < lab.state("small").started_at
    assert builds(worker) == 1
