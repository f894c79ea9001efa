"""Fixtures: a module, run in this process against the emulator."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible.utils.display import Display
from ansible_collections.tpu.fleet.plugins.action import fleet
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.refused import Refused
from emulator import Emulator

Module = Callable[..., dict[str, Any]]
# What Ansible gives an action where the inventory has no worker.
NO_HOSTS: dict[str, Any] = {"groups": {}, "hostvars": mock.Mock(raw_get={}.__getitem__)}


def run_fleet(args: dict[str, Any], check: bool) -> dict[str, Any]:
    """Run the action fleet, which has no module; return its result as that of one."""
    task = Task()
    task.action, task.args, task.check_mode = "tpu.fleet.fleet", args, check
    action = fleet.ActionModule(
        task=task,
        connection=mock.Mock(transport="local"),
        play_context=mock.Mock(),
        loader=DataLoader(),
        templar=Templar(loader=DataLoader(), variables={}),
        shared_loader_obj=None,
    )
    warned: list[str] = []
    warning = mock.patch.object(
        Display, "warning", lambda _self, text, **_more: warned.append(text)
    )
    # What a fleet file may not leave out has tests of its own.
    with warning, mock.patch.object(fleet, "check_planned", return_value=[]):
        try:
            result = {"rc": 0, **action.run(task_vars=NO_HOSTS)}
        except Refused as refused:
            result = {"rc": 1, **refused.result}
    texts = " ".join([*warned, *result.pop("warnings", ())])
    return {**result, "warned": " ".join(texts.split())}


@pytest.fixture
def module(
    cloud: Emulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Module:
    """Run a module as its main program does, and return its result."""

    def run(
        name: str, args: dict[str, Any], *, check: bool = False, env: dict[str, str] | None = None
    ) -> dict[str, Any]:
        plugin = importlib.import_module(f"ansible_collections.tpu.fleet.plugins.modules.{name}")
        with monkeypatch.context() as patch:
            for key, value in {**cloud.env(HOME=str(tmp_path)), **(env or {})}.items():
                patch.setenv(key, value)
            if name == "fleet":
                result = run_fleet(args, check)
                return {**json.loads(json.dumps(result)), "shown": capsys.readouterr().out}
            given = {**args, "_ansible_check_mode": check}
            with patch_module_args(given), pytest.raises(SystemExit) as ended:
                plugin.main()
        printed = capsys.readouterr()
        # A module in this process takes itself for the controller, which prints its warnings.
        warned = " ".join(printed.err.split())
        return {"rc": ended.value.code, "warned": warned, **json.loads(printed.out)}

    return run
