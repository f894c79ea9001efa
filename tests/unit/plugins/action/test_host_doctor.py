"""What the action host_doctor takes of a worker's answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.tpu.fleet.plugins.action.host_doctor import ActionModule


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        ({"failed": True, "msg": "no\x1b]0;x\x07", "ansible_facts": {"fleet_state_dir": "/x"},
          "warnings": ["\x1b[2J"]},
         {"failed": True, "msg": "no\ufffd]0;x\ufffd", "changed": False}),
        ({"findings": [], "add_host": {"host_name": "new"}, "warnings": ["\x1b[2J"]},
         {"changed": False}),
        ({"failed": True, "msg": ["x"]}, {"failed": True, "msg": "", "changed": False}),
    ],
)  # fmt: skip
def test_an_answer_without_findings_is_read_as_well(
    answer: dict[str, Any], taken: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ActionBase, "run", lambda *_args: {})
    monkeypatch.setattr(ActionModule, "_execute_module", lambda *_args, **_named: answer)
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"name": "w"})
    assert action.run(task_vars={"inventory_hostname": "w"}) == taken
