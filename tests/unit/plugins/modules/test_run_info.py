"""What the module tells of the runs of this computer, which has none."""

from __future__ import annotations

import json
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


def test_what_is_left_of_a_run_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(told(capsys, about="left", run="no-such-run", one_by_one=True)["answer"])
    assert (said["left"], said["rsync"]) == ([], False)
