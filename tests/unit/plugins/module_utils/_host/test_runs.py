"""What a worker says of a run that a person keeps stopped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import listing
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import (
    MOST_GONE,
    SUBMITTED,
    RunFiles,
)

NOW = "boot-now"
AGENT = b"/usr/bin/python3\0-I\0/opt/tpu-fleet/tpu_fleet_run.py\0agent\0--definition\0/x\0"


def worker(
    root: Path, state: str, boot: str = NOW, alive: bool = False, by: object = "eve@x"
) -> RunFiles:
    files = RunFiles(root)
    (files.states / "digits").mkdir(parents=True)
    files.definitions.mkdir(parents=True)
    (files.definitions / "digits.json").write_text(json.dumps({"user": "alice"}))
    files.boot.parent.mkdir(parents=True)
    files.boot.write_text(NOW)
    if state:
        status = {"run": "digits", "state": state, "boot_id": boot, "agent_pid": 7, "serial": 1}
        (files.states / "digits/status.json").write_text(json.dumps(status))
    for pid, words in ((7, AGENT if alive else b"sleep\0"), (8, AGENT)):
        (files.processes / str(pid)).mkdir(parents=True)
        (files.processes / str(pid) / "cmdline").write_bytes(words)
    if by is not None:
        files.mark("digits").write_text(json.dumps({"by": by, "at": 1.0}))
    return files


@pytest.mark.parametrize(
    ("state", "more", "shown"),
    [
        ("stopped", {}, "stopped"),
        # The machine lost its power while the program saved; nothing corrects the status.
        ("running", {"boot": "boot-before"}, "stopped"),
        ("running", {}, "stopped"),
        ("running", {"alive": True}, "running"),
        ("", {}, "stopped"),
        ("failed", {}, "failed"),
        ("succeeded", {}, "succeeded"),
    ],
)
def test_the_state_of_a_run_that_is_kept_stopped(
    tmp_path: Path, state: str, more: dict[str, Any], shown: str
) -> None:
    files = worker(tmp_path, state, **more)
    assert files.state_now("digits") == shown
    told = files.told("digits")
    by = "eve@x stopped it; to start it: tpu-fleet start digits"
    assert told.get("reason", "") == ("" if shown in ("failed", "succeeded") else by)
    assert files.all_told()["runs"] == [told]


def test_what_is_not_kept_stopped_is_as_its_agent_says(tmp_path: Path) -> None:
    files = worker(tmp_path, "running", "boot-before", by=None)
    assert files.state_now("digits") == "not back since the reboot"
    assert not files.stopped_by("digits")


@pytest.mark.parametrize("by", ["", 7, ["x"]])
def test_a_mark_without_a_name_holds_too(tmp_path: Path, by: object) -> None:
    files = worker(tmp_path, "stopped", by=by)
    assert files.stopped_by("digits") == "an unknown person"
    files.mark("digits").write_text("half a")
    assert files.stopped_by("digits") == "an unknown person"


def test_a_run_that_is_kept_stopped_is_where_it_should_be_and_is_named(tmp_path: Path) -> None:
    files = worker(tmp_path, "stopped")
    assert files.is_back("digits")
    assert files.idle(1e9) == [
        {
            "run": "digits",
            "state": "stopped",
            "reason": "eve@x stopped it; to start it: tpu-fleet start digits",
        }
    ]
    files.mark("digits").unlink()
    assert not files.is_back("digits")


def test_a_submitted_run_is_shown_as_it_ended_and_is_nobodys_to_apply(tmp_path: Path) -> None:
    files = worker(tmp_path, "succeeded", by=None)
    (files.definitions / "digits.json").unlink()
    assert files.told("digits")["declared"] is False
    (files.states / "digits/submitted.json").write_text("{}")
    assert "declared" not in files.told("digits")
    # Its files are gone, where one that is declared or still here has them.
    assert files.has_left("digits")
    (files.definitions / "digits.json").write_text("{}")
    assert not files.has_left("digits")
    # One that waits for its gang is none of the runs that an apply has started.
    waiting = worker(tmp_path / "other", "pending", by=None)
    assert [one["run"] for one in waiting.idle(1e9) or []] == ["digits"]
    (waiting.states / "digits/submitted.json").write_text("{}")
    assert waiting.idle(1e9) == []


def test_of_runs_that_are_gone_the_newest_are_listed(tmp_path: Path) -> None:
    files = worker(tmp_path, "running", by=None)
    for number in range(1200):
        folder = files.states / f"lr-{number}"
        folder.mkdir()
        (folder / SUBMITTED).write_text("{}")
        status = {"run": folder.name, "state": "succeeded", "serial": 1}
        (folder / "status.json").write_text(json.dumps(status))
        os.utime(folder / "status.json", (number, number))
    told = files.all_told()
    # A worker whose answer is refused would be hidden with all its runs.
    assert len(listing("w0", json.dumps(told)).runs) == MOST_GONE + 1
    names = {one["run"] for one in told["runs"]}
    assert {"digits", "lr-1199", f"lr-{1200 - MOST_GONE}"} <= names
    assert files.told("lr-0")["state"] == "succeeded"
