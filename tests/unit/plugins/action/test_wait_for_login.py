"""The wait for a login, with a connection that answers as it is told."""

from __future__ import annotations

from typing import Any
from unittest import mock

from ansible.errors import AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.tpu.fleet.plugins.action import wait_for_login

AWAY = AnsibleConnectionFailure("Failed to connect to the host via ssh:\nConnection refused")


def run(*answers: Any, check: bool = False, **arguments: Any) -> tuple[dict[str, Any], mock.Mock]:
    task = Task()
    task.action = "tpu.fleet.wait_for_login"
    task.args, task.check_mode = {"sleep": 0, **arguments}, check
    connection = mock.Mock(transport="ssh")
    action = wait_for_login.ActionModule(
        task=task,
        connection=connection,
        play_context=mock.Mock(),
        loader=DataLoader(),
        templar=Templar(loader=DataLoader()),
        shared_loader_obj=None,
    )
    with mock.patch.object(action, "_low_level_execute_command", side_effect=answers) as command:
        return action.run(task_vars={"inventory_hostname": "solo"}), command


def test_it_tries_until_it_is_let_in_and_runs_no_module() -> None:
    result, command = run(AWAY, {"rc": 1, "stdout": "System is booting up"}, {"rc": 0})
    assert not result.get("failed")
    assert not result["changed"]
    assert result["waited"] >= 0
    assert [call.args for call in command.call_args_list] == [("exit 0",)] * 3


def test_it_ends_with_what_the_last_try_said() -> None:
    result, command = run({"rc": 1, "stderr": "booting", "stdout": ""}, timeout=0)
    assert command.call_count == 1
    assert result["failed"]
    assert "to solo within 0 s. The last try: booting. tpu-fleet doctor" in result["msg"]
    result, command = run(AWAY, timeout=0)
    assert "ssh: Connection refused. tpu-fleet" in result["msg"]


def test_in_check_mode_the_machine_may_not_be_there() -> None:
    result, command = run(check=True)
    assert result["skipped"]
    assert not command.called
