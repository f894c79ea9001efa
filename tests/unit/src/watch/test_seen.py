"""How slices stand, from the planner's own decisions over what the API shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan import plan_fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import Plan, World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node

from tpu_fleet.watch import seen
from tpu_fleet.watch.decide import SliceSeen

ZONE = "us-central2-b"
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
PAIR = {"name": "pair", "accelerator_type": "v4-16", "zone": ZONE}
GRANT = {"zone": ZONE, "generation": "v4", "tier": "on_demand", "chips": 32}


def fleet(allocations: Any = "unrestricted", **keys: Any) -> Fleet:
    params = {"slices": [{**PAIR, **keys}], "allocations": allocations, "expire": True}
    return Fleet.from_params({**params, "warn_before": "7d"}, "p")


def node(wanted: Fleet, state: str = "READY", name: str = "pair", **raw: Any) -> Node:
    spec = wanted.node_spec(wanted.slices[0], wanted.slices[0].candidates[0])
    return Node.from_api(
        {
            **spec.create_body(),
            "name": f"projects/p/locations/{ZONE}/nodes/{name}",
            "id": "7",
            "state": state,
            "health": "HEALTHY",
            "networkEndpoints": [{"ipAddress": "10.0.0.1"}, {"ipAddress": "10.0.0.2"}],
            **raw,
        }
    )


def looked(wanted: Fleet, *nodes: Node, now: datetime = NOW) -> tuple[World, Plan]:
    world = World(nodes, (), frozenset(), now)
    return world, plan_fleet(wanted, world, {})


def one(wanted: Fleet, *nodes: Node) -> SliceSeen:
    [found] = seen.slices_of(wanted, *looked(wanted, *nodes))
    return found


def test_a_slice_that_is_there() -> None:
    wanted = fleet()
    found = one(wanted, node(wanted))
    assert (found.phase, found.uid, found.lost, found.wants) == ("ready", "7", "", "")
    assert found.addresses == ("10.0.0.1 -", "10.0.0.2 -")
    assert seen.book_of([found]) == "pair 7 10.0.0.1 - 10.0.0.2 -"


def test_one_that_differs_is_there_all_the_same_and_needs_a_person() -> None:
    wanted = fleet(runtime_version="tpu-ubuntu2204-base")
    other = node(wanted, runtimeVersion="tpu-vm-base")
    world, plan = looked(wanted, other)
    [found] = seen.slices_of(wanted, world, plan)
    assert found.phase == "ready"
    assert "runtime_version" in seen.stuck(plan)["pair"]


@pytest.mark.parametrize(
    ("policy", "phase", "wants"), [("recreate", "clearing", "- delete"), ("keep", "kept", "")]
)
def test_one_that_was_preempted(policy: str, phase: str, wants: str) -> None:
    wanted = fleet(on_preempt=policy)
    world, plan = looked(wanted, node(wanted, "PREEMPTED"))
    [found] = seen.slices_of(wanted, world, plan)
    assert (found.lost, found.lost_uid, found.phase, found.want.on_preempt) == (
        "PREEMPTED",
        "7",
        phase,
        policy,
    )
    assert found.wants.startswith(wants)
    # It is told as preempted, and needs nobody.
    assert seen.stuck(plan) == {}


def test_one_that_is_not_there() -> None:
    found = one(fleet())
    assert (found.phase, found.uid, found.wants[:13]) == ("coming", "", "+ create node")


def test_what_is_pruned_belongs_to_no_slice() -> None:
    params = {"slices": [PAIR], "allocations": "unrestricted", "prune": True}
    wanted = Fleet.from_params(params, "p")
    _world, plan = looked(wanted, node(wanted), node(wanted, name="old"))
    assert [text.split(" (")[0] for text in seen.other_actions(plan)] == ["- delete node old"]


@pytest.mark.parametrize(
    ("ends", "keys"),
    [
        (None, []),
        ("2027-03-31", []),
        ("2026-11-27", ["near"]),
        ("2026-11-22", ["last"]),
        # It is over: what runs on costs money.
        ("2026-11-20", ["outside"]),
    ],
)
def test_the_end_of_the_grant(ends: str | None, keys: list[str]) -> None:
    wanted = fleet([{**GRANT, **({"ends": ends} if ends else {})}])
    world, plan = looked(wanted, node(wanted))
    messages = seen.grant_messages(wanted, world, plan, 0.0)
    found = [
        m.key.rpartition(":")[2] if m.key.startswith("grant:") else "outside" for m in messages
    ]
    assert found == keys
    assert all(message.event == "grant_ending" for message in messages)
