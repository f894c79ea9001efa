"""Submitted runs in `runs --queue`, `stop`, `retry`, `logs` and `fetch`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node, Outcome
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    FAILED,
    STOPPED,
    Definition,
    Signed,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Seen
from queue_fleet import OWNER, FleetInMemory, fleet_in_memory

from tpu_fleet.commands import queued

SOLO = Serving("solo", "v4-8", 4)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FleetInMemory:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(tmp_path / "none"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: "carol")
    fleet = fleet_in_memory([{"name": "alice"}])
    monkeypatch.setattr(queued, "read_inventory", lambda: None)
    monkeypatch.setattr(queued, "queue_of", lambda _inventory: fleet)
    monkeypatch.setattr(queued, "PAUSES", (0.0,))
    return fleet


def submitted(lab: FleetInMemory, *names: str, checkpoints: str | None = "gs://lab/x") -> None:
    for turn, name in enumerate(names):
        definition = Definition(
            name, "alice", "alice", ("x",), "jax", 1.7e9, checkpoint_dir=checkpoints
        )
        text = objects.definition_text(definition)
        lab.opened().submit(definition, Signed(text, "signature"), turn)


def claimed(lab: FleetInMemory) -> Seen:
    seen = lab.opened().claim_next(SOLO, OWNER)
    assert seen is not None
    return seen


def no_others(names: Sequence[str]) -> int:
    raise AssertionError(names)


def test_the_table_has_what_runs_what_waits_and_what_ended(
    lab: FleetInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert queued.show_queue([], False) == 0
    assert capsys.readouterr().out == "Nothing is submitted to gs://lab/queue.\n"
    submitted(lab, "a", "b", "c", "d")
    lab.opened().finish(claimed(lab), Outcome(FAILED, "exit 1: boom", 1, 2, 2))
    assert claimed(lab).run.name == "b"
    assert queued.show_queue([], False) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split()[:3] for line in lines[1:] if line.split()]
    assert rows[0] == ["-", "b", "running"]
    assert ["1", "c", "waiting"] in rows
    assert ["2", "d", "waiting"] in rows
    text = " ".join(lines)
    assert "first in turn; " in text
    assert "exit 1: boom" in text
    assert queued.show_queue(["d", "zz"], True) == 1
    told = json.loads(capsys.readouterr().out)
    assert [(one["run"], one["position"]) for one in told["runs"]] == [("d", 2)]


def test_a_run_whose_slice_is_gone_waits_again(
    lab: FleetInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(lab, "a")
    claimed(lab)
    lab.api["solo"] = Node("READY", "node-1")
    queued.show_queue([], True)
    assert json.loads(capsys.readouterr().out)["runs"][0]["state"] == "running"
    lab.api["solo"] = Node("PREEMPTED", "node-1")
    queued.show_queue([], True)
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["state"], run["failures"]) == ("waiting", 0)
    assert "solo is preempted" in run["why"]


def test_a_waiting_run_is_stopped_and_an_ended_one_stays(
    lab: FleetInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(lab, "a")
    for _ in range(2):
        assert queued.with_submitted("stop", ["a"], False, None, no_others) == 0
        assert capsys.readouterr().out == "a: stopped by carol\n"


def test_one_that_is_refused_costs_only_itself(
    lab: FleetInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(lab, "lr-1")
    lab.bucket.put("runs/lr-2", b'{"name":"lr-2","priority":"\\u001b[2J"}', {})
    assert queued.with_submitted("stop", ["lr-2", "lr-1"], False, 1.0, lambda rest: len(rest)) == 1
    said = capsys.readouterr()
    assert said.out == "lr-1: stopped by carol\n"
    assert said.err.startswith("The state of lr-2 in the queue is refused: priority: ")


def test_a_running_one_is_waited_for(
    lab: FleetInMemory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(lab, "a")
    mine = claimed(lab)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            lab.opened().finish(mine, Outcome(STOPPED, "stopped by carol"))

    monkeypatch.setattr("time.sleep", sleep)
    assert queued.with_submitted("stop", ["a"], True, None, no_others) == 0
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert (told["state_before"], told["state"], told["done"]) == ("running", "stopped", True)


def test_one_that_does_not_end_in_time(
    lab: FleetInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(lab, "a")
    claimed(lab)
    assert queued.with_submitted("stop", ["a"], False, 0.01, no_others) == 1
    assert capsys.readouterr().err == (
        "a: running on solo: it does not end within 0.01 s, and is still asked to\n"
    )


def test_a_failed_run_is_retried_and_others_are_refused(
    lab: FleetInMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(lab, "a", "b")
    lab.opened().finish(claimed(lab), Outcome(FAILED, "exit 1", 1))
    assert queued.with_submitted("retry", ["a", "b"], False, None, no_others) == 1
    said = capsys.readouterr()
    assert said.out == "a: waiting: retried by carol\n"
    assert said.err == (
        "b: waiting: Only a submitted run that has failed or was stopped is tried again\n"
    )


def test_runs_that_are_not_submitted_go_on_as_before(lab: FleetInMemory) -> None:
    submitted(lab, "a")
    asked: list[Sequence[str]] = []

    def others(names: Sequence[str]) -> int:
        asked.append(names)
        return 2

    assert queued.with_submitted("stop", ["digits", "Large_1"], False, None, others) == 2
    assert queued.with_submitted("stop", ["a", "digits"], False, None, others) == 2
    assert asked == [["digits", "Large_1"], ["digits"]]
    with pytest.raises(click.UsageError, match="--json is for submitted runs"):
        queued.with_submitted("stop", ["a", "digits"], True, None, others)


def test_the_archive_of_a_submitted_run_is_where_its_checkpoints_are(lab: FleetInMemory) -> None:
    submitted(lab, "a")
    submitted(lab, "b", checkpoints=None)
    assert queued.archive_of("a") == "gs://lab/tpu-fleet-archive/x/"
    assert queued.archive_of("b") == ""
    assert queued.archive_of("digits") == ""


def test_a_definition_that_is_refused_is_an_error(lab: FleetInMemory) -> None:
    submitted(lab, "a")
    (name,) = (name for name in lab.bucket.items if name.startswith("definitions/"))
    lab.bucket.items[name] = lab.bucket.items[name]._replace(data=b"{}")
    with pytest.raises(click.ClickException, match="The definition of a is refused"):
        queued.archive_of("a")


def test_what_the_queue_says_of_a_run_that_no_worker_has(lab: FleetInMemory) -> None:
    submitted(lab, "a", "b")
    claimed(lab)
    assert queued.said_of("a") == "a is running."
    assert queued.said_of("b").startswith("b is waiting: first in turn; ")
    assert queued.said_of("digits") == queued.said_of("c") == ""
