"""What the local cloud's TPU API offers."""

from __future__ import annotations

import pytest

from tpu_local_cloud.model.shared import catalog
from tpu_local_cloud.tables._compute.machine_types import APIS


@pytest.mark.parametrize("zone", [*catalog.ZONES, "us-central1-ai1a"])
def test_no_zone_offers_what_only_compute_engine_has(zone: str) -> None:
    assert all("tpu" in APIS[kind.generation] for kind in catalog.types_in(zone))
    assert catalog.type_in(zone, "v7x-8") is None
    assert not any("7x" in version for version in catalog.runtimes_in(zone))
