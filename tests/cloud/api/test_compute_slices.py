"""The collection's client of slices on Compute Engine, over HTTP to a cloud without machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._compute.groups import Seen
from ansible_collections.tpu.fleet.plugins.module_utils._compute.instance import Instance
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slices import ComputeSlices
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    AlreadyExists,
    BadRequest,
    Busy,
    PermissionDenied,
    from_status,
    row_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.compute_api import (
    ComputeApi,
    compute_creation,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import Action
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import Place
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node, Operation
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_plan import Difference, plan
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import DataDisk, NodeSpec
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_resources import QueuedResource
from emulator import CloudClock, Emulator

ZONE = "us-central1-b"
KINDS = ("instances", "instanceGroupManagers", "instanceTemplates", "resourcePolicies")
# Operations on policies, templates, labels and metadata end at once.
DELAYS = {"create": 60.0, "delete": 30.0, "stop": 20.0, "start": 30.0, "update": 0.0}
DELAYS |= {"queue_grant": 10.0, "queue_look": 60.0, "maintain": 100.0, "fail": 45.0}


@dataclass(frozen=True)
class Want:
    """A declared slice."""

    name: str = "big"
    kind: str = "v6e-16"
    machine_type: str = ""
    topology: str = ""
    tier: str = "on_demand"
    valid_for: float | None = None
    max_run_duration: str | None = None
    reservation: str | None = None

    def spec(self, **rest: Any) -> NodeSpec:
        return NodeSpec(self.name, ZONE, Emulator.project, self.kind, owner="lab", **rest)


ONE = Want("one", "v6e-1")
FLEX = Want("one", "v6e-1", tier="flex_start", max_run_duration="1h", valid_for=7200.0)


class Side:
    """The fleet's side of a cloud."""

    def __init__(self, cloud: Emulator) -> None:
        self.cloud = cloud
        self.clock = CloudClock(cloud)
        client = Client(cloud.project, endpoint=cloud.url, clock=self.clock)
        self.slices = ComputeSlices(client)
        self.api = ComputeApi(client, slices=self.slices)

    def create(self, want: Want, until: str | None = None, **rest: Any) -> Operation:
        place = Place(ZONE, want.kind, "compute")
        kind, body = compute_creation(want, place, want.spec(**rest), until)
        return self.do(kind, want.name, body=body)

    def do(self, kind: str, name: str, **rest: Any) -> Operation:
        return self.act(Action(kind, name, ZONE, name, "a test", **rest))

    def act(self, action: Action) -> Operation:
        """Carry out an action as an apply does."""
        self.api.prepare(action, 15.0)
        return self.api.do(action, 15.0)

    def end(self, name: str, kind: str = "delete_node") -> None:
        """Delete a slice as the planner does: a long deletion by a second call."""
        if not self.do(kind, name).done:
            self.later(31)
        if name in self.states():
            assert self.states()[name] == "TERMINATED"
            self.do("delete_node", name)

    def disk(self, name: str) -> None:
        path = f"compute/v1/projects/{self.cloud.project}/zones/{ZONE}/disks"
        body = {"name": name, "sizeGb": "10"}
        assert requests.post(self.cloud.url + path, json=body, timeout=60).ok

    def source(self, name: str) -> str:
        return f"projects/{self.cloud.project}/zones/{ZONE}/disks/{name}"

    def later(self, seconds: float) -> None:
        self.cloud.control("clock", {"advance": seconds})

    def node(self, name: str = "big") -> Node:
        (found,) = (node for node in self.api.nodes().items if node.name == name)
        return found

    def states(self) -> dict[str, str]:
        """Return the states of all nodes and requests."""
        nodes = {node.name: node.state for node in self.api.nodes().items}
        return {**nodes, **{queued.name: queued.state for queued in self.api.queued(()).items}}

    def request(self, name: str = "big") -> QueuedResource:
        self.api.nodes()
        (found,) = (queued for queued in self.api.queued(()).items if queued.name == name)
        return found

    def error(self, operation: Operation) -> str:
        """Return what the error of an operation is."""
        found = {one.name: one for one in self.api.operations(ZONE)}[operation.name]
        return row_of(from_status(found.error)).key if found.error else ""

    def left(self) -> dict[str, int]:
        """Return how many resources of each kind there are."""
        base, counts = f"{self.cloud.url}compute/v1/projects/{self.cloud.project}/aggregated/", {}
        for kind in KINDS:
            scopes = requests.get(base + kind, timeout=60).json()["items"].values()
            counts[kind] = sum(len(scope.get(kind, [])) for scope in scopes)
        return {kind: count for kind, count in counts.items() if count}


def disks_of(instance: Instance) -> list[str]:
    """Return the names of an instance's data disks."""
    found = instance.properties()["dataDisks"]
    return sorted(disk["sourceDisk"].rpartition("/")[2] for disk in found)


@pytest.fixture
def side() -> Iterator[Side]:
    """A cloud whose time passes only when a client waits."""
    cloud = Emulator(clock="manual", delays=DELAYS)
    yield Side(cloud)
    cloud.stop()


# -- the life of a slice -------------------------------------------------------------------------


def test_one_machine_from_request_to_end(side: Side) -> None:
    begun = side.create(ONE)
    assert begun.target.endswith("/nodes/one")
    assert side.states() == {"one": "CREATING"}
    side.later(90)
    node = side.node("one")
    assert (node.state, node.accelerator_type, node.topology) == ("READY", "v6e-1", "1x1")
    assert node.endpoints[0].internal_ip
    assert node.endpoints[0].external_ip
    assert plan(ONE.spec(tier="on_demand", boot_disk_size_gb=100), node) == []
    side.do("stop_node", "one")
    side.later(21)
    assert side.states() == {"one": "STOPPED"}
    side.do("start_node", "one")
    side.later(31)
    assert side.states() == {"one": "READY"}
    side.do("delete_node", "one")
    side.later(31)
    assert side.left() == {}


def test_a_slice_from_request_to_end(side: Side) -> None:
    side.create(Want())
    # It waits for all of its capacity first, and then for its machines.
    assert side.states() == {"big": "WAITING_FOR_RESOURCES"}
    side.later(30)
    assert side.states() == {"big": "CREATING"}
    side.later(60)
    node = side.node()
    assert (node.state, node.accelerator_type, node.topology) == ("READY", "v6e-16", "4x4")
    numbers = [worker.worker for worker in side.slices.workers(ZONE, "big")]
    assert numbers == [0, 1, 2, 3]
    names = [worker.name for worker in side.slices.workers(ZONE, "big")]
    assert [end.instance for end in node.endpoints] == names
    assert plan(Want().spec(tier="on_demand"), node) == []
    side.end("big")
    assert side.left() == {}


@pytest.mark.parametrize(
    ("kind", "machine_type", "topology", "zone", "vms"),
    [("v7x-16", "", "", "us-central1-c", 2), ("v6e-8", "ct6e-standard-4t", "2x4", ZONE, 2)],
)
def test_other_shapes(
    side: Side, kind: str, machine_type: str, topology: str, zone: str, vms: int
) -> None:
    want = Want("it", kind, machine_type, topology)
    spec = NodeSpec("it", zone, Emulator.project, kind, owner="lab")
    verb, body = compute_creation(want, Place(zone, kind, "compute"), spec, None)
    side.act(Action(verb, "it", zone, "it", "a test", body=body))
    side.later(90)
    node = side.node("it")
    assert (node.state, node.accelerator_type, len(node.endpoints)) == ("READY", kind, vms)


def test_labels_and_metadata_of_a_slice_change(side: Side) -> None:
    side.create(Want())
    side.later(90)
    spec = Want().spec(labels={"team": "a"}, ssh_keys=("me:ssh-ed25519 AAAA me",))
    differences = tuple(plan(spec, side.node()))
    assert {one.field for one in differences} == {"labels", "metadata"}
    side.do("patch_node", "big", differences=differences)
    assert plan(spec, side.node()) == []
    # What the workers know about each other is still there.
    assert [worker.worker for worker in side.slices.workers(ZONE, "big")] == [0, 1, 2, 3]
    gone = Difference("labels", {"team": "a"}, {}, "labels")
    side.do("patch_node", "big", differences=(gone,))
    assert side.node().labels.keys() == {"tpu-fleet", "tpu-fleet-spec"}


def test_tags_addresses_and_disks_of_a_slice_change(side: Side) -> None:
    """As the planner changes them: machine by machine, until nothing differs."""
    for name in ("data", "more"):
        side.disk(name)
    side.create(Want(), tags=("first",))
    side.later(90)
    before = {end.instance: end.external_ip for end in side.node().endpoints}
    assert all(before.values())
    data = DataDisk(side.source("data"), "READ_ONLY")
    more = DataDisk(side.source("more"), "READ_WRITE", ("2",))
    steps: list[tuple[dict[str, Any], str]] = [
        ({"tags": ("second",)}, "tags"),
        ({"external_ips": False}, "external_ips"),
        ({"data_disks": (data, more)}, "data_disks"),
        ({"external_ips": True}, "external_ips"),
        ({"data_disks": (more,), "purge": frozenset({"data_disks"})}, "data_disks"),
        ({"tags": ("first",), "purge": frozenset({"tags"})}, "tags"),
    ]
    for options, field in steps:
        spec = Want().spec(**options)
        differences = tuple(plan(spec, side.node()))
        assert [one.field for one in differences] == [field]
        side.do("patch_node", "big", differences=differences)
        assert plan(spec, side.node()) == [], field
        if field == "external_ips":
            has = [bool(end.external_ip) for end in side.node().endpoints]
            assert has == [options["external_ips"]] * 4
        if options.get("data_disks") == (data, more):
            names = [disks_of(one) for one in side.slices.workers(ZONE, "big")]
            assert names == [["data"], ["data"], ["data", "more"], ["data"]]
    node = side.node()
    assert (node.state, node.tags) == ("READY", ["first"])
    assert [disks_of(one) for one in side.slices.workers(ZONE, "big")] == [[], [], ["more"], []]
    assert {end.instance for end in node.endpoints} == set(before)
    assert all(end.external_ip not in before.values() for end in node.endpoints)


@pytest.mark.parametrize("name", ["external-nat", "External NAT"])
def test_an_address_that_somebody_else_gave_is_taken_away(side: Side, name: str) -> None:
    """gcloud and the console name the configuration differently, and only by it can it go."""
    _kind, body = compute_creation(ONE, Place(ZONE, "v6e-1", "compute"), ONE.spec(), None)
    body["instance"]["networkInterfaces"][0]["accessConfigs"][0]["name"] = name
    side.slices.create(ZONE, body)
    side.later(90)
    spec = ONE.spec(external_ips=False)
    side.do("patch_node", "one", differences=tuple(plan(spec, side.node("one"))))
    node = side.node("one")
    assert (plan(spec, node), node.endpoints[0].external_ip) == ([], None)
    # It gets none by a restart either.
    for verb in ("stop_node", "start_node"):
        side.do(verb, "one")
        side.later(31)
    assert side.node("one").endpoints[0].external_ip is None


def test_what_is_fixed_is_not_patched(side: Side) -> None:
    side.create(ONE, description="the first")
    side.later(90)
    (found,) = plan(ONE.spec(description="the second"), side.node("one"))
    assert (found.field, found.have, found.want) == ("description", "the first", "the second")
    assert found.mask is None
    with pytest.raises(BadRequest, match="it is fixed when the slice is made"):
        side.do("patch_node", "one", differences=(found,))


def test_host_keys_are_in_the_guest_attributes(side: Side) -> None:
    side.create(ONE)
    side.later(90)
    (item,) = side.slices.guest_attributes(ZONE, "one", "hostkeys/")["queryValue"]["items"]
    assert item["key"] == "ssh-ed25519"
    assert side.slices.guest_attributes(ZONE, "none", "hostkeys/") == {}
    # Many at once are the same.
    several = side.slices.guest_attributes_of([(ZONE, "none"), (ZONE, "one")], "hostkeys/")
    assert several[0] == {}
    assert several[1]["queryValue"]["items"] == [item]


# -- waiting -------------------------------------------------------------------------------------


def test_flex_start_waits_is_granted_runs_and_expires(side: Side) -> None:
    side.cloud.fault("stock_out", match={"zone": ZONE})
    side.create(FLEX)
    side.later(600)
    queued = side.request("one")
    assert (queued.state, queued.tier) == ("WAITING_FOR_RESOURCES", "flex_start")
    assert queued.labels["tpu-fleet"] == "lab"
    side.cloud.control("faults", method="DELETE")
    side.later(90)
    assert side.states() == {"one": "READY"}
    assert side.node("one").tier == "flex_start"
    side.later(3700)
    assert side.states() == {}


def test_flex_start_that_expires_unserved_says_why(side: Side) -> None:
    side.cloud.fault("stock_out", match={"zone": ZONE})
    until = (side.api.now() + timedelta(seconds=1800)).strftime("%Y-%m-%dT%H:%M:%SZ")
    begun = side.create(FLEX, until)
    side.later(1700)
    assert side.states() == {"one": "WAITING_FOR_RESOURCES"}
    side.later(200)
    assert side.states() == {}
    assert side.error(begun) == "stock_out"


def test_a_waiting_request_is_taken_back(side: Side) -> None:
    side.cloud.fault("stock_out", match={"zone": ZONE})
    side.create(FLEX)
    side.later(100)
    side.do("delete_queued", "one")
    side.later(60)
    assert side.left() == {}


def test_a_slice_waits_for_all_of_its_machines(side: Side) -> None:
    side.cloud.fault("stock_out", match={"zone": ZONE})
    want = Want(tier="flex_start", max_run_duration="1h")
    until = (side.api.now() + timedelta(seconds=7200)).strftime("%Y-%m-%dT%H:%M:%SZ")
    side.create(want, until)
    side.later(100)
    queued = side.request()
    assert (queued.state, queued.tier, queued.valid_until) == (
        "WAITING_FOR_RESOURCES",
        "flex_start",
        until,
    )
    assert queued.nodes[0].accelerator_type == "v6e-16"
    assert queued.error["code"] == 8
    side.cloud.control("faults", method="DELETE")
    side.later(120)
    assert side.states() == {"big": "READY"}
    # Its time is over: the group is still there, and its machines are gone for good.
    side.later(3700)
    assert side.states() == {"big": "TERMINATED"}
    side.end("big")
    assert side.left() == {}


def test_a_slice_waits_no_longer_than_it_was_told(side: Side) -> None:
    side.cloud.fault("stock_out", match={"zone": ZONE})
    until = (side.api.now() + timedelta(seconds=1800)).strftime("%Y-%m-%dT%H:%M:%SZ")
    side.create(Want(tier="flex_start"), until)
    side.later(1700)
    assert side.states() == {"big": "WAITING_FOR_RESOURCES"}
    side.later(200)
    failed = side.request()
    assert failed.state == "FAILED"
    assert row_of(from_status(failed.error)).key == "stock_out"
    side.end("big", "delete_queued")
    assert side.left() == {}


# -- capacity and quota --------------------------------------------------------------------------


def test_a_stock_out_of_one_machine(side: Side) -> None:
    side.cloud.fault("stock_out", match={"zone": ZONE})
    begun = side.create(ONE)
    side.later(100)
    assert side.states() == {}
    assert side.error(begun) == "stock_out"


def test_a_stock_out_of_a_slice(side: Side) -> None:
    side.cloud.fault("stock_out", match={"zone": ZONE})
    side.create(Want())
    side.later(100)
    failed = side.request()
    assert failed.state == "FAILED"
    assert row_of(from_status(failed.error)).key == "stock_out"


@pytest.mark.parametrize(("limit", "row"), [(0, "quota_zero"), (1, "quota")])
def test_quota_is_told_apart_from_capacity(side: Side, limit: int, row: str) -> None:
    side.cloud.fault("quota", match={"service": "compute"}, limit=limit)
    begun = side.create(Want("four", "v6e-4"))
    side.later(100)
    assert side.error(begun) == row


def test_spot_machines_are_taken_back(side: Side) -> None:
    side.create(Want("one", "v6e-1", tier="spot"))
    side.create(Want(tier="spot"))
    side.later(90)
    assert side.states() == {"one": "READY", "big": "READY"}
    for name in ("one", side.node().endpoints[2].instance):
        side.cloud.control(f"nodes/{side.cloud.project}/{ZONE}/{name}:preempt")
    side.later(60)
    assert side.states() == {"one": "PREEMPTED", "big": "PREEMPTED"}


# -- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("want", [ONE, Want()], ids=["one", "slice"])
def test_a_lost_answer_makes_no_second_machine(side: Side, want: Want) -> None:
    for method in ("instances.insert", "instanceGroupManagers.insert"):
        side.cloud.fault("drop", match={"method": method}, when="after", count=1)
    begun = side.create(want)
    assert begun.name
    side.later(90)
    assert side.states() == {want.name: "READY"}
    with pytest.raises(AlreadyExists):
        side.create(want)
    assert side.states() == {want.name: "READY"}


def test_a_refused_group_leaves_nothing(side: Side) -> None:
    side.cloud.fault("iam_denied", match={"method": "instanceGroupManagers.insert"}, count=1)
    with pytest.raises(PermissionDenied):
        side.create(Want())
    assert side.left() == {}


@pytest.mark.parametrize("steps", [("policy",), ("policy", "template")])
def test_the_next_apply_goes_on_where_a_controller_died(side: Side, steps: tuple[str, ...]) -> None:
    _kind, body = compute_creation(Want(), Place(ZONE, "v6e-16", "compute"), Want().spec(), None)
    base = f"{side.cloud.url}compute/v1/projects/{side.cloud.project}/regions/us-central1/"
    places = {"policy": "resourcePolicies", "template": "instanceTemplates"}
    for step in steps:
        assert requests.post(base + places[step], json=body[step], timeout=60).ok
    # Who does not want the slice any more sees what is left of it.
    assert side.states() == {"big": "TERMINATED"}
    assert side.node().labels["tpu-fleet"] == "lab"
    side.create(Want())
    side.later(90)
    assert side.states() == {"big": "READY"}


def test_what_is_left_of_a_slice_is_deleted(side: Side) -> None:
    _kind, body = compute_creation(Want(), Place(ZONE, "v6e-16", "compute"), Want().spec(), None)
    base = f"{side.cloud.url}compute/v1/projects/{side.cloud.project}/regions/us-central1/"
    requests.post(base + "resourcePolicies", json=body["policy"], timeout=60)
    side.do("delete_node", "big")
    assert side.left() == {}


def test_another_shape_of_the_slice_replaces_what_is_left(side: Side) -> None:
    _kind, body = compute_creation(Want(), Place(ZONE, "v6e-16", "compute"), Want().spec(), None)
    base = f"{side.cloud.url}compute/v1/projects/{side.cloud.project}/regions/us-central1/"
    requests.post(base + "resourcePolicies", json=body["policy"], timeout=60)
    requests.post(base + "instanceTemplates", json=body["template"], timeout=60)
    side.create(Want(kind="v6e-32"))
    side.later(90)
    assert side.node().topology == "4x8"


def test_a_deletion_that_takes_long_is_finished_by_the_next(side: Side) -> None:
    side.create(Want())
    side.later(90)
    side.cloud.control("delays", {"delete": 300.0})
    assert not side.do("delete_node", "big").done
    assert side.states() == {"big": "DELETING"}
    side.later(300)
    assert side.states() == {"big": "TERMINATED"}
    assert side.left() == {"instanceTemplates": 1, "resourcePolicies": 1}
    side.do("delete_node", "big")
    assert side.left() == {}


def test_a_machine_that_is_being_deleted_says_so(side: Side) -> None:
    side.create(ONE)
    side.later(90)
    side.do("delete_node", "one")
    assert side.states() == {"one": "DELETING"}
    side.later(31)
    assert side.states() == {}


def test_a_zone_that_does_not_answer_is_not_empty(side: Side) -> None:
    side.create(Want())
    side.create(ONE)
    side.later(90)
    side.cloud.fault("unreachable", match={"zone": ZONE, "service": "compute"})
    nodes = side.api.nodes()
    assert nodes.items == []
    assert nodes.unreachable == [ZONE]
    assert side.api.queued(()).unreachable == [ZONE]


def test_a_start_while_it_starts_is_not_repeated(side: Side) -> None:
    side.create(ONE)
    side.later(90)
    side.do("stop_node", "one")
    side.later(21)
    side.do("start_node", "one")
    with pytest.raises(Busy):
        side.do("start_node", "one")


def test_what_a_zone_lists(side: Side) -> None:
    _kind, body = compute_creation(ONE, Place(ZONE, "v6e-1", "compute"), ONE.spec(), None)
    action = Action("create_node", "one", ZONE, "one", "a test", body=body)
    assert side.api.not_offered(action) is None
    elsewhere = Action("create_node", "one", "us-west1-c", "one", "a test", body=body)
    error = side.api.not_offered(elsewhere)
    assert error is not None
    assert row_of(error).key == "machine_type_not_in_zone"


def test_an_inventory_costs_the_same_number_of_requests(side: Side) -> None:
    side.create(ONE)
    side.create(Want())
    side.later(90)
    seen: Seen = side.slices.list(leftovers=False)
    assert len(seen.instances.items) == 5
    assert len(seen.slices) == 1
