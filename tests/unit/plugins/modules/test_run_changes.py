"""What the module reads of a worker's runs."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import RunFiles
from ansible_collections.tpu.fleet.plugins.modules.run_changes import (
    changes,
    kept_stopped,
    mark_file,
)

NEW = {"command": "b", "checkpoint_dir": "/c"}


def test_definitions_and_states_are_compared_with_what_is_declared(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    for run, command in (("same", "b"), ("other", "a"), ("old", "a")):
        files.definitions.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**NEW, "command": command})
        (files.definitions / f"{run}.json").write_text(text)
        state = files.states / run / "status.json"
        state.parent.mkdir(parents=True)
        state.write_text(json.dumps({"run": run, "state": "running", "serial": 1}))
    folder = str(files.definitions)
    declared = [
        {"path": f"{folder}/{name}.json", "content": json.dumps(NEW)}
        for name in ("same", "other", "new")
    ]
    unit = {"path": "/etc/systemd/system/tpu-fleet-run@same.service", "content": "[Unit]"}
    params = {
        "files": [*declared, unit],
        "enabled": ["same", "other", "new"],
        "changed_paths": [f"{folder}/new.env.json"],
        "gone": ["old"],
        "stopped": {},
        "folder": folder,
    }
    assert [change.line() for change in changes(params, files)] == [
        "restarted: other: command",
        "started: new: it is new",
        "stopped: old: it is no longer declared",
    ]
    params["changed_paths"] = [f"{folder}/same.env.json"]
    assert changes(params, files)[0].line() == "restarted: same: env"


def test_a_run_that_is_kept_stopped_is_not_restarted(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.definitions.mkdir(parents=True)
    files.mark("digits").parent.mkdir(parents=True)
    path = files.definitions / "digits.json"
    path.write_text(json.dumps({**NEW, "command": "a"}))
    status = {"run": "digits", "state": "stopped", "serial": 1}
    (files.states / "digits/status.json").write_text(json.dumps(status))
    params = {
        "files": [{"path": str(path), "content": json.dumps(NEW)}],
        "enabled": ["digits"],
        "changed_paths": [],
        "gone": [],
        "stopped": {},
        "folder": str(files.definitions),
    }
    assert [change.does for change in changes(params, files)] == ["started"]
    files.mark("digits").write_text(json.dumps({"by": "eve@x"}))
    assert changes(params, files) == []


def test_a_run_that_was_stopped_on_an_earlier_machine_is_not_started(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.definitions.mkdir(parents=True)
    declared = files.definitions / "digits.json"
    params = {
        "files": [{"path": str(declared), "content": json.dumps(NEW)}],
        "enabled": ["digits"],
        "changed_paths": [],
        "gone": [],
        "stopped": {"digits": "eve@x"},
        "folder": str(files.definitions),
    }
    assert [change.line() for change in changes(params, files)] == [
        "not started: digits: eve@x stopped it. To start it: tpu-fleet start digits"
    ]
    assert kept_stopped(params["stopped"], files) == {"digits": "eve@x"}
    mark = mark_file("digits", "eve@x", files)
    files.mark("digits").parent.mkdir(parents=True)
    Path(mark["path"]).write_text(mark["content"])
    assert files.stopped_by("digits") == "eve@x"
    # What has a definition is not new: who started it here has removed the mark.
    declared.write_text(json.dumps({**NEW, "command": "a"}))
    files.mark("digits").unlink()
    assert kept_stopped(params["stopped"], files) == {}
    assert [change.line() for change in changes(params, files)] == ["restarted: digits: command"]
