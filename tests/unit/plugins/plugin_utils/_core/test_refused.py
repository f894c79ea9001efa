"""Failures of actions, which Ansible shows once."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.utils.display import Display
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply import bundle as apply_bundle
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.refused import (
    Refused,
    Unreached,
    once,
)

# An action of a task without conditions of its own.
ACTION = SimpleNamespace(_task=SimpleNamespace(until=[], failed_when=[]))
ACTIONS = Path(__file__).resolve().parents[5] / "plugins/action"


@pytest.mark.parametrize("name", sorted(path.stem for path in ACTIONS.glob("*.py")))
def test_every_action_shows_its_failure_once(name: str) -> None:
    module = importlib.import_module(f"ansible_collections.tpu.fleet.plugins.action.{name}")
    # What also runs on machines, without plugin_utils, where no one reads Ansible's own output.
    on_machines = f"plugins/action/{name}.py" in apply_bundle.ACTIONS
    assert hasattr(module.ActionModule.run, "__wrapped__") is not on_machines


def test_a_failed_result_is_refused_with_all_that_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(Display, "warning", lambda _self, text: warned.append(text))

    @once
    def run(_action: Any) -> dict[str, Any]:
        result = {"failed": True, "msg": "why", "hopeless": True, "warnings": ["careful"]}
        return {**result, "exception": "trace"}

    with pytest.raises(Refused) as raised:
        run(ACTION)
    # With its end of line Ansible folds it nowhere.
    assert raised.value.result == {"changed": False, "msg": "why\n", "hopeless": True}
    assert raised.value.omit_exception_key
    assert warned == ["careful"]
    monkeypatch.setattr(Display(), "verbosity", 3)
    assert run(ACTION)["exception"] == "trace"


@pytest.mark.parametrize(
    ("error", "kind"), [(AnsibleActionFail, Refused), (AnsibleConnectionFailure, Unreached)]
)
def test_an_error_is_shown_once(error: type[Exception], kind: type[Exception]) -> None:
    @once
    def run(_action: Any) -> dict[str, Any]:
        raise error("why")

    with pytest.raises(kind, match=r"^why\n?$") as raised:
        run(ACTION)
    assert getattr(raised.value, "omit_exception_key", False)


def test_what_is_well_is_returned() -> None:
    assert once(lambda _action: {"changed": True})(ACTION) == {"changed": True}


@pytest.mark.parametrize("condition", ["until", "failed_when"])
@pytest.mark.parametrize("error", [None, AnsibleActionFail, Refused])
def test_a_task_with_conditions_gets_the_failure_to_judge(
    condition: str, error: type[AnsibleActionFail] | None
) -> None:
    # Ansible asks neither of them about an exception: a task would fail at its first try.
    task = {"until": [], "failed_when": [], condition: ["not ready"]}

    @once
    def run(_action: Any) -> dict[str, Any]:
        if error:
            raise error("why", result={"hopeless": False})
        return {"failed": True, "msg": "why", "hopeless": False}

    result = run(SimpleNamespace(_task=SimpleNamespace(**task)))
    assert result["failed"]
    assert result["hopeless"] is False
    assert result["msg"].strip() == "why"
