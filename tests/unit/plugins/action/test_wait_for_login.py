"""The wait for a login, with a connection that answers by a script."""

from __future__ import annotations

from typing import Any
from unittest import mock

from ansible.errors import AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.tpu.fleet.plugins.action import wait_for_login
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.refused import Refused

AWAY = AnsibleConnectionFailure("Failed to connect to the host via ssh:\nConnection refused")

DENIED = AnsibleConnectionFailure(
    "Failed to connect to the host via ssh: root@192.0.2.1: Permission denied (publickey)."
)
LOGIN = {"fleet_ssh_user": "ubuntu", "ansible_ssh_private_key_file": "/k"}


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
        try:
            result = action.run(task_vars={"inventory_hostname": "solo", **LOGIN})
        except Refused as refused:
            result = {**refused.result, "failed": True}
    return result, command


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


def test_a_login_that_cannot_work_is_said_at_once() -> None:
    with mock.patch.dict(LOGIN, ansible_user="root"):
        result, command = run(DENIED, denied_for=0)
    assert command.call_count == 1
    assert result["failed"]
    assert "solo refuses the login" in result["msg"]
    assert "root@192.0.2.1: Permission denied (publickey)" in result["msg"]
    assert "as root with /k, but the slices admit ubuntu (fleet_ssh_user)" in result["msg"]
    with mock.patch.dict(LOGIN, ansible_user="ubuntu"):
        result, command = run(DENIED, denied_for=0)
    assert "as ubuntu with /k. Name the key that the slice admits" in result["msg"]


def test_a_machine_that_was_just_made_may_deny_it_first() -> None:
    result, command = run(AWAY, DENIED, AWAY, DENIED, {"rc": 0}, denied_for=60)
    assert not result.get("failed")
    assert command.call_count == 5


def test_what_a_machine_says_is_made_fit_to_be_shown() -> None:
    result, _command = run({"rc": 1, "stderr": "boo\x1b[31m\x07ting", "stdout": ""}, timeout=0)
    assert "\x1b" not in result["msg"]
    assert "\x07" not in result["msg"]
