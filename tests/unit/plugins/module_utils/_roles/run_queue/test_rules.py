"""Rules for slices that serve the queue."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.run_queue.rules import (
    check_run_queue,
)

QUEUE = {"bucket": "gs://lab/queue"}
DIGITS = {"name": "digits", "slices": ["solo"]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"fleet_queue": QUEUE}, ""),
        ({"fleet_queue": {**QUEUE, "slices": ["solo"]}}, ""),
        ({}, "has no queue"),
        ({"fleet_queue": {**QUEUE, "slices": ["pair"]}}, "lacks solo"),
        ({"fleet_queue": QUEUE, "fleet_runs": [DIGITS]}, "would keep digits"),
        ({"fleet_queue": QUEUE, "fleet_runs": [{**DIGITS, "enabled": False}]}, ""),
        ({"fleet_queue": QUEUE, "fleet_runs": [{**DIGITS, "slices": ["pair"]}]}, ""),
    ],
)
def test_a_slice_that_comes_for_submitted_runs_is_only_for_them(
    data: dict[str, Any], words: str
) -> None:
    found = check_run_queue({"fleet_slices": [{"name": "solo", "on_queue": True}], **data})
    assert [(one.field, words in one.message) for one in found] == (
        [("fleet_slices[0].on_queue", True)] if words else []
    )
    assert check_run_queue({"fleet_slices": [{"name": "solo"}], **data}) == []
