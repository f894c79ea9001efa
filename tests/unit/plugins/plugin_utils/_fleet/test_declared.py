"""What comes of the results of several modules."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.declared import Declared, together


def test_results_are_put_together() -> None:
    fine = {"changed": True, "diff": {"after": "x"}, "warnings": ["careful"]}
    same = {"changed": False, "diff": {"after": "not shown"}}
    made = together([fine, same])
    assert made == {"changed": True, "diff": [{"after": "x"}], "warnings": ["careful"]}
    assert "warnings" not in fine, "each is told once"


def test_all_failures_are_told() -> None:
    failed = [{"failed": True, "msg": "a."}, {"changed": True}, {"failed": True, "msg": "b."}]
    assert together(failed)["msg"] == "a. b."
    assert together(failed)["failed"]


class Writes(Declared):
    def act(self) -> dict[str, Any]:
        return {"changed": True, "diff": [{"after": "x"}]}


@pytest.mark.parametrize("asked", [True, False])
def test_a_task_without_diff_shows_none(asked: bool) -> None:
    task = mock.Mock(diff=asked, args={}, async_val=0, check_mode=False)
    action = Writes(task, mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock(), None)
    assert ("diff" in action.run(task_vars={})) is asked
