from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.tpu.fleet.plugins.action import controller_file


def run(check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    task = Task()
    task.action, task.args, task.check_mode = "tpu.fleet.controller_file", arguments, check_mode
    action = controller_file.ActionModule(
        task=task,
        connection=mock.Mock(transport="local"),
        play_context=mock.Mock(),
        loader=DataLoader(),
        templar=Templar(loader=DataLoader(), variables={}),
        shared_loader_obj=None,
    )
    result: dict[str, Any] = action.run(task_vars={})
    return result


def test_a_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    foreseen = run(check_mode=True, dest=str(path), content="a\n")
    assert not path.exists()
    written = run(dest=str(path), content="a\n")
    assert path.read_text() == "a\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert foreseen["changed"]
    assert written["changed"]
    assert foreseen["diff"] == written["diff"]
    again = run(dest=str(path), content="a\n")
    assert not again["changed"]
    assert "diff" not in again


def test_a_mode_that_somebody_changed_is_put_right(tmp_path: Path) -> None:
    path = tmp_path / "file"
    run(dest=str(path), content="a\n")
    path.chmod(0o644)
    assert run(dest=str(path), content="a\n")["changed"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnsibleActionFail, match="No such file"):
        run(dest=str(tmp_path / "no" / "file"), content="")
