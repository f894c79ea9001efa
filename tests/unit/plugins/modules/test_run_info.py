"""What the module reports of the runs of this computer, which has none."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import RunFiles
from ansible_collections.tpu.fleet.plugins.modules import run_info


def told(capsys: pytest.CaptureFixture[str], **words: Any) -> dict[str, Any]:
    with patch_module_args(words), pytest.raises(SystemExit):
        run_info.main()
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFiles:
    """Return the files of a worker with a run that succeeded."""
    there = RunFiles(tmp_path)
    (there.states / "a").mkdir(parents=True)
    (there.states / "a/status.json").write_text(json.dumps({"run": "a", "state": "succeeded"}))
    there.boot.parent.mkdir(parents=True)
    there.boot.write_text("this\n")
    monkeypatch.setattr(run_info, "RunFiles", lambda: there)
    return there


def test_runs(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, about="runs")
    assert json.loads(said["answer"]) == [{"run": "a", "state": "succeeded"}]
    assert said["changed"] is False


def test_it_fails_while_a_run_is_not_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert "failed" not in told(capsys, about="back")
    assert "failed" not in told(capsys, about="back", due=["a"])
    said = told(capsys, about="back", due=["a", "b"])
    assert (said["failed"], said["msg"]) == (True, "a: succeeded, b: not there")


def write(files: RunFiles, run: str, **status: Any) -> None:
    (files.states / run).mkdir(exist_ok=True)
    text = json.dumps({"run": run, "boot_id": "this", **status})
    (files.states / run / "status.json").write_text(text)


def test_a_run_that_waits_for_the_chips_is_back(
    files: RunFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = {"behind": "a", "user": "alice", "since": 1.0}
    write(files, "waits", state="pending", queue=queue)
    assert "failed" not in told(capsys, about="back", due=["a", "waits"])
    write(files, "waits", state="pending", queue=None)
    assert told(capsys, about="back", due=["a", "waits"])["failed"]


def test_runs_are_waited_for_until_they_are_back_or_have_failed(
    files: RunFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    comes = ["running"]

    def sleep(_seconds: float) -> None:
        write(files, "comes", state=comes.pop())

    monkeypatch.setattr(run_info.time, "sleep", sleep)
    write(files, "comes", state="pending", queue=None)
    words = {"about": "back", "due": ["a", "comes"], "wait": 60}
    assert "failed" not in told(capsys, **words)
    assert comes == []
    # Waiting does not change this one: the list of what comes is empty.
    write(files, "comes", state="failed")
    assert told(capsys, **words)["msg"] == "a: succeeded, comes: failed"


def test_runs_are_waited_for_no_longer_than_is_asked(
    files: RunFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(files, "late", state="pending", queue=None)
    clock = [0.0]
    monkeypatch.setattr(run_info.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(run_info.time, "sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    assert told(capsys, about="back", due=["late"], wait=5)["msg"] == "late: pending"
    assert clock == [5.0]


def test_runs_that_are_due_are_waited_for_while_they_are_between_two_states(
    files: RunFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(files, "r", state="restarting", since=time.time())
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        write(files, "r", state="running", since=time.time())

    monkeypatch.setattr(run_info.time, "sleep", sleep)
    said = json.loads(told(capsys, about="due", due=["a", "r", "missing"])["answer"])
    assert {one["run"]: one["state"] for one in said} == {
        "a": "succeeded",
        "r": "running",
        "missing": "not there",
    }
    assert len(looks) > 0


@pytest.mark.parametrize(
    ("status", "changed", "between"),
    [
        ({"state": "restarting", "since": 995.0}, 0, True),
        ({"state": "restarting", "since": 900.0}, 0, False),
        ({"state": "pending", "since": 995.0, "queue": {"behind": "a"}}, 0, False),
        ({"state": "running", "since": 999.0}, 0, False),
        ({"state": "failed", "since": 1.0}, 995, True),
        ({"state": "failed", "since": 999.0}, 0, False),
    ],
)
def test_a_state_that_soon_is_another(
    files: RunFiles, status: dict[str, Any], changed: int, between: bool
) -> None:
    write(files, "r", **status)
    record = files.states.parent / "venvs" / "tools.json"
    record.parent.mkdir()
    record.write_text("{}")
    os.utime(record, (changed, changed))
    assert files.is_between("r", 1000.0) is between


def test_what_is_left_of_a_run_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(told(capsys, about="left", run="no-such-run", one_by_one=True)["answer"])
    assert (said["left"], said["rsync"]) == ([], False)
