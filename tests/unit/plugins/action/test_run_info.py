"""What the controller says of runs that do not run."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.action.run_info import line_of


def test_a_run_that_does_not_run_is_a_line() -> None:
    seen = {"run": "lr3", "state": "failed", "reason": "exit code 1"}
    assert line_of(seen, "a") == (
        "lr3 (a): failed; exit code 1; to try it again: tpu-fleet retry lr3 --slice a"
    )
    assert line_of({**seen, "state": "stopped", "reason": ""}, "a") == "lr3 (a): stopped"
    assert line_of({**seen, "state": "succeeded"}, "a") == ""
