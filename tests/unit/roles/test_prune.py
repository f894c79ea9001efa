"""Which runs of a machine role training_run removes: the declared ones that are no longer so."""

from __future__ import annotations

import pytest
from role_templates import expression, variables_of

FOLDER = "/etc/tpu-fleet/runs/"
RUN = {"name": "digits", "slices": ["host"], "user": "alice", "command": "true"}


@pytest.mark.parametrize(
    ("there", "gone"),
    [
        ([], []),
        (["digits.json"], []),
        (["digits.json", "old.json"], ["old"]),
        (["lr.submitted", "lr.json", "old.json"], ["old"]),
        (["lr.submitted"], []),  # its definition is being written, or was removed
        (["a.b.json", "lr.submitted", "lr-2.json"], ["a.b", "lr-2"]),
    ],
)
def test_a_submitted_run_is_the_queue_agents_to_end(there: list[str], gone: list[str]) -> None:
    found = {"files": [{"path": f"{FOLDER}{name}"} for name in there]}
    known = {"__training_run_known": found, "training_run_runs": [RUN]}
    ends = expression("__training_run_gone", variables_of("training_run", known))
    assert sorted(ends) == gone
