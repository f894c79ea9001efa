"""Rules for metrics in the fleet file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.tpu_metrics.rules import (
    check_tpu_metrics,
)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("address", "10.128.0.2", "::"),
        ("port", 9100, 0),
        ("interval", "5s", "0s"),
        ("disks", ["/"], ["tmp"]),
        ("exporter_args", ["--no-collector.wifi"], ["--a --b"]),
    ],
)
def test_good_and_bad_values(name: str, good: Any, bad: Any) -> None:
    assert not check_tpu_metrics({f"fleet_metrics_{name}": good})
    found = check_tpu_metrics({f"fleet_metrics_{name}": bad})
    assert len(found) == 1
    assert found[0].field.startswith(f"fleet_metrics_{name}")
    assert found[0].remedy
