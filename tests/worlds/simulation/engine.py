"""What others do on Compute Engine: they make slices and parts, and the service takes them back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_bodies import (
    Shape,
    slice_bodies,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.in_zone import region_of
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import NodeSpec

from simulation.rules import type_of
from simulation.things import OWNER_LABEL
from simulation.world import PROJECT, World
from tpu_local_cloud.model.shared.records import NodeRecord

# In this order a slice is made; who ends earlier leaves parts behind.
ORDER = ("instance", "policy", "template", "group")
COLLECTIONS = {
    "instance": "zones/{zone}/instances",
    "policy": "regions/{region}/resourcePolicies",
    "template": "regions/{region}/instanceTemplates",
    "group": "zones/{zone}/instanceGroupManagers",
}
MACHINES = {"v6e-4": "ct6e-standard-4t", "v6e-8": "ct6e-standard-8t"}


def add(world: World, given: Mapping[str, Any]) -> None:
    """Make a slice, or only the parts for it up to one of them, for an owner or for none."""
    zone, name, owner = given["zone"], given["name"], given["owner"]
    params = {"name": name, "zone": zone, "accelerator_type": type_of(given)}
    spec = NodeSpec.from_params({**params, "owner": owner or "nobody"}, PROJECT)
    kind = given.get("machine_type") or MACHINES[given["accelerator_type"]]
    bodies = slice_bodies(spec, Shape(kind, given.get("topology", ""), given["tier"]))
    if owner is None:
        bodies = {what: _unmarked(body) for what, body in bodies.items()}
    with world.by_hand(f"{given['until']} {name} in {zone} of {owner or 'nobody'}"):
        for what in ORDER[: ORDER.index(given["until"]) + 1]:
            if what in bodies:
                place = COLLECTIONS[what].format(zone=zone, region=region_of(zone))
                path = f"/compute/v1/projects/{PROJECT}/{place}"
                body = json.dumps(bodies[what]).encode()
                reply = world.front.reply("POST", path, {}, {}, body)
                if reply.status != 200:
                    world.note(f"        -> {reply.status} {reply.body[:200]!r}")
                    return


def _unmarked(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body as one who knows nothing of fleets would send it."""
    kept = {key: value for key, value in body.items() if key != "description"}
    if "labels" in kept:
        kept["labels"] = {"whose": "theirs"}
    if "properties" in kept:
        kept["properties"] = {**kept["properties"], "labels": {"whose": "theirs"}}
    assert OWNER_LABEL not in kept.get("labels", {})
    return kept


def happen(world: World, node: NodeRecord, kind: str, which: int) -> None:
    """Let something happen to an instance or a group."""
    compute = world.cloud.compute
    workers = list(range(len(node.machines)))
    if kind == "preempt":
        compute.preempt(node, workers)
    elif kind == "preempt_one":
        compute.preempt(node, [which % len(workers)])
    elif kind == "terminate":
        compute.preempt(node, workers, True)
    elif kind == "stop":
        compute.stop(node, which % len(workers))
    elif kind == "delete" and node.is_group:
        compute.delete_group(node)
    elif kind == "delete":
        compute.delete(node, 0)
    else:
        world.cloud.maintain_machines(node, workers, "v1", False)
