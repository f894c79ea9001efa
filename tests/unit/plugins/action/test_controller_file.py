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
    task.diff = True
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


@pytest.mark.parametrize(("mode", "of_folder"), [("0600", 0o700), ("0644", 0o755)])
def test_a_missing_folder_is_made_for_those_who_may_read(
    tmp_path: Path, mode: str, of_folder: int
) -> None:
    path = tmp_path / "new" / "file"
    run(check_mode=True, dest=str(path), content="", mode=mode)
    assert not path.parent.exists()
    run(dest=str(path), content="", mode=mode)
    assert path.parent.stat().st_mode & 0o777 == of_folder


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "no").touch()
    with pytest.raises(AnsibleActionFail, match="File exists"):
        run(dest=str(tmp_path / "no" / "file"), content="")
