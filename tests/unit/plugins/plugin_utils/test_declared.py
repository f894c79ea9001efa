"""What comes of the results of several modules."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.plugin_utils.declared import together


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
