"""The room in the grant."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.grant_room import Room
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import QueuedResource

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


def test_a_slice_of_compute_engine_keeps_its_place_when_it_gets_its_capacity() -> None:
    """Two fleets that look at different moments have to agree on who was first."""
    raw = {
        "name": "projects/p/locations/us-east5-a/nodes/one",
        "createTime": "2026-11-21T11:00:00Z",
    }
    node = Node.from_api({**raw, "acceleratorType": "v6e-8", "api": "compute"})
    request = QueuedResource.from_api(
        {**raw, "tpu": {"nodeSpec": [{"nodeId": "one", "node": {"acceleratorType": "v6e-8"}}]}}
    )
    fleet = Fleet.from_params({"slices": [], "allocations": "unrestricted"}, "p")
    room = Room(fleet, World((), (), frozenset(), NOW), {})
    waiting = replace(request, api="compute", zone="us-east5-a", name="one")
    assert room.birth(waiting) == room.birth(node)
    assert room.birth(replace(waiting, api="tpu")) != room.birth(node)
