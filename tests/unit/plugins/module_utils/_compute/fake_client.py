"""A client of slices whose requests go to an API in memory, and whose time is fake."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._compute.slices import ComputeSlices
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    FakeCompute,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    FakeSession,
    client_with,
)


def slices_of(fake: FakeCompute) -> ComputeSlices:
    """Return a client of slices for an API in memory."""
    client, _clock = client_with(FakeSession(answer=fake))
    return ComputeSlices(client)
