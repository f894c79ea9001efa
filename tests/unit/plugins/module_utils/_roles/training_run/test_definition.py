"""What a run's definition has of its archive."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.definition import (
    archive_of,
)


@pytest.mark.parametrize(
    ("run", "place"),
    [
        ({"checkpoint_dir": "gs://lab/runs/digits"}, "gs://lab/tpu-fleet-archive/runs/digits/"),
        ({"checkpoint_dir": "gs://lab/runs/digits", "archive": None}, ""),
        ({"checkpoint_dir": "/data", "archive": "gs://logs/all"}, "gs://logs/all"),
        ({}, ""),
        ({"checkpoint_dir": ""}, ""),
    ],
)
def test_where_the_archive_of_a_declared_run_is(run: dict[str, Any], place: str) -> None:
    assert archive_of({"name": "digits", **run}) == place
