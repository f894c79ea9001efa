"""(wanted, seen) -> differences and steps."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import Refused
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_apply import (
    diff_of,
    outcome,
    patch_body,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_plan import decide, plan
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import NodeSpec

OWNED = {"tpu-fleet": "managed", "tpu-fleet-spec": "x"}


def spec(**params: Any) -> NodeSpec:
    base = {"name": "n", "zone": "us-central2-b", "accelerator_type": "v4-8"}
    return NodeSpec.from_params({**base, **params}, "p")


def seen(**rest: Any) -> Node:
    raw = {
        "name": "projects/123/locations/us-central2-b/nodes/n",
        "id": "11",
        "state": "READY",
        "health": "HEALTHY",
        "acceleratorType": "v4-8",
        "acceleratorConfig": {"type": "V4", "topology": "2x2x1"},
        "runtimeVersion": "tpu-ubuntu2204-base",
        "networkConfig": {
            "network": "projects/p/global/networks/default",
            "subnetwork": "default",
            "enableExternalIps": True,
        },
        "networkEndpoints": [{"ipAddress": "10.0.0.1"}],
        "labels": OWNED,
        "metadata": {"enable-guest-attributes": "TRUE"},
    }
    return Node.from_api({**raw, **rest})


DIFFERENCES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    # wanted, seen, {field: wanted value}
    ({}, {}, {}),
    ({"network": "default", "subnetwork": "regions/r/subnetworks/default"}, {}, {}),
    ({"accelerator_type": None}, {"acceleratorType": "v5p-8"}, {}),
    ({"labels": {"a": "b"}}, {"labels": {**OWNED, "a": "b", "c": "d"}}, {}),
    ({"labels": {"a": "b"}}, {}, {"labels": {**OWNED, "a": "b"}}),
    (
        {"purge": ["labels"]},
        {"labels": {**OWNED, "c": "d", "goog-x": "y"}},
        {"labels": {**OWNED, "goog-x": "y"}},
    ),
    ({"owner": "alice"}, {}, {"labels": {**OWNED, "tpu-fleet": "alice"}}),
    ({"metadata": {"a": "b"}}, {}, {"metadata": {"enable-guest-attributes": "TRUE", "a": "b"}}),
    ({"tags": ["b", "a"]}, {"tags": ["a", "b"]}, {}),
    ({"tags": ["b"]}, {"tags": ["a"]}, {"tags": ["a", "b"]}),
    ({"tags": ["b"], "purge": ["tags"]}, {"tags": ["a"]}, {"tags": ["b"]}),
    ({"description": "d"}, {"description": "d"}, {}),
    ({"description": ""}, {"description": "d"}, {"description": ""}),
    ({}, {"description": "d"}, {}),
    ({"external_ips": False}, {}, {"external_ips": False}),
    ({}, {"networkConfig": {"network": "default"}}, {}),
    ({"accelerator_type": "v4-16"}, {}, {"accelerator_type": "v4-16"}),
    ({"tier": "spot"}, {}, {"tier": "spot"}),
    # An answer of v2 leaves the size out; what is unknown does not differ.
    ({"boot_disk_size": "200GiB"}, {}, {}),
    ({"boot_disk_size": "200GiB"}, {"bootDiskConfig": {"diskSizeGb": "200"}}, {}),
    (
        {"boot_disk_size": "200GiB"},
        {"bootDiskConfig": {"diskSizeGb": "100"}},
        {"boot_disk_size": "200GiB"},
    ),
    ({"tier": "spot"}, {"schedulingConfig": {"spot": True}}, {}),
    # The kind before spot is as good.
    ({"tier": "spot"}, {"schedulingConfig": {"preemptible": True}}, {}),
    ({"tier": "on_demand"}, {"schedulingConfig": {"preemptible": True}}, {"tier": "on_demand"}),
    ({"network": "other"}, {}, {"network": "other"}),
    ({"service_account": "a@b"}, {}, {"service_account": "a@b"}),
    (
        {"runtime_version": "tpu-vm-v4-base"},
        {},
        {"runtime_version": "tpu-vm-v4-base"},
    ),
    (
        {"accelerator_type": None, "accelerator_config": {"type": "V4", "topology": "2x2x1"}},
        {},
        {},
    ),
    (
        {"accelerator_type": None, "accelerator_config": {"type": "V4", "topology": "2x2x2"}},
        {},
        {"accelerator_config.topology": "2x2x2"},
    ),
]


@pytest.mark.parametrize(("wanted", "there", "expected"), DIFFERENCES)
def test_plan(wanted: dict[str, Any], there: dict[str, Any], expected: dict[str, Any]) -> None:
    found = plan(spec(**wanted), seen(**there))
    assert {item.field: item.want for item in found} == expected


DISK = {"sourceDisk": "projects/123/zones/us-central2-b/disks/d1", "mode": "READ_WRITE"}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        # The answer names the project by its number, we by its id.
        ({"data_disks": [{"source_disk": "d1", "read_only": False}]}, None),
        ({"data_disks": []}, None),
        ({"data_disks": [{"source_disk": "d1", "read_only": True}]}, ["123/READ_ONLY"]),
        (
            {"data_disks": [{"source_disk": "d2", "read_only": False}]},
            ["123/READ_WRITE", "p/READ_WRITE"],
        ),
        ({"purge": ["data_disks"]}, []),
    ],
)
def test_plan_of_disks(wanted: dict[str, Any], expected: list[str] | None) -> None:
    found = plan(spec(**wanted), seen(dataDisks=[DISK]))
    texts = (
        [f"{d['sourceDisk'].split('/')[1]}/{d['mode']}" for d in found[0].want] if found else None
    )
    assert texts == expected


SPOT = {"schedulingConfig": {"spot": True}}
PAIR = {
    "acceleratorType": "v4-16",
    "networkEndpoints": [{"ipAddress": "1"}, {"ipAddress": "2"}],
}

STEPS: list[tuple[str, dict[str, Any], dict[str, Any] | None, str]] = [
    # state, wanted, seen, steps
    ("present", {}, None, "create wait_ready"),
    ("started", {}, None, "create wait_ready"),
    ("absent", {}, None, ""),
    ("present", {}, {}, ""),
    ("present", {"labels": {"a": "b"}}, {}, "patch"),
    ("present", {}, {"state": "CREATING"}, "wait_ready"),
    ("present", {"labels": {"a": "b"}}, {"state": "CREATING"}, "wait_ready patch"),
    ("present", {}, {"health": "UNHEALTHY_MAINTENANCE"}, "wait_ready"),
    ("present", {}, {"state": "STOPPED"}, ""),
    ("present", {"labels": {"a": "b"}}, {"state": "STOPPED"}, "patch"),
    ("present", {}, {"state": "DELETING"}, "wait_gone create wait_ready"),
    ("absent", {}, {"state": "DELETING"}, "wait_gone"),
    ("absent", {}, {}, "delete wait_gone"),
    ("absent", {}, {"state": "PREEMPTED"}, "delete wait_gone"),
    ("started", {}, {}, ""),
    ("started", {}, {"state": "STOPPED"}, "start wait_ready"),
    ("started", {}, {"state": "STOPPING"}, "wait_stopped start wait_ready"),
    ("started", {}, {"state": "STARTING"}, "wait_ready"),
    ("started", {"labels": {"a": "b"}}, {"state": "STOPPED"}, "patch start wait_ready"),
    ("stopped", {}, {}, "stop wait_stopped"),
    ("stopped", {}, {"state": "STOPPING"}, "wait_stopped"),
    ("stopped", {}, {"state": "STOPPED"}, ""),
    ("stopped", {}, {"state": "STARTING"}, "wait_ready stop wait_stopped"),
    ("stopped", {"accelerator_type": None}, {}, "stop wait_stopped"),
]


@pytest.mark.parametrize(("state", "wanted", "there", "steps"), STEPS)
def test_decide(
    state: str, wanted: dict[str, Any], there: dict[str, Any] | None, steps: str
) -> None:
    node = None if there is None else seen(**there)
    decision = decide(state, spec(**wanted), node)
    assert " ".join(step.kind for step in decision.steps) == steps


@pytest.mark.parametrize(
    ("state", "there", "steps"),
    [
        ("present", None, "create"),
        ("present", {"state": "CREATING"}, ""),
        ("absent", {}, "delete"),
        ("absent", {"state": "DELETING"}, ""),
        ("started", {"state": "STOPPED"}, "start"),
        ("stopped", {}, "stop"),
    ],
)
def test_decide_without_waiting(state: str, there: dict[str, Any] | None, steps: str) -> None:
    node = None if there is None else seen(**there)
    decision = decide(state, spec(), node, wait=False)
    assert " ".join(step.kind for step in decision.steps) == steps


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any] | None, str]] = [
    ("present", {}, {"labels": {}}, "nothing on it says tpu-fleet.*adopt: true"),
    ("absent", {}, {"labels": {}}, "nothing on it says tpu-fleet.*adopt: true"),
    ("stopped", {}, {"labels": {}, "state": "STOPPED"}, "nothing on it says tpu-fleet"),
    ("absent", {"owner": "alice"}, {}, "belongs to 'managed', not to 'alice'"),
    ("present", {"accelerator_type": "v4-16"}, {}, "accelerator_type is 'v4-8', wanted 'v4-16'"),
    (
        "present",
        {"tier": "spot", "network": "x"},
        {},
        "tier is 'on_demand', wanted 'spot'; network is 'default', wanted 'x'.*state: absent",
    ),
    ("present", {}, {"state": "PREEMPTED"}, "PREEMPTED and will never run again.*recreate: true"),
    ("started", {}, {"state": "TERMINATED"}, "TERMINATED.*recreate: true"),
    ("stopped", {}, {"state": "PREEMPTED"}, "PREEMPTED"),
    ("present", {"accelerator_type": None}, None, "no option says what to create"),
    ("stopped", {}, None, "no node n in us-central2-b to stop"),
    ("stopped", {"accelerator_type": None}, PAIR, "several workers"),
    ("stopped", {}, {"queuedResource": "projects/p/locations/z/queuedResources/q"}, "resource q"),
    ("started", {}, {"state": "STOPPED", **SPOT}, "cannot be started again"),
]


@pytest.mark.parametrize(("state", "wanted", "there", "words"), REFUSED)
def test_refused(
    state: str, wanted: dict[str, Any], there: dict[str, Any] | None, words: str
) -> None:
    with pytest.raises(Refused, match=words):
        decide(state, spec(**wanted), None if there is None else seen(**there))


@pytest.mark.parametrize(
    ("state", "wanted", "steps"),
    [
        ("present", {}, "patch"),
        ("absent", {}, "delete wait_gone"),
        ("absent", {"owner": "alice"}, "delete wait_gone"),
    ],
)
def test_adopted(state: str, wanted: dict[str, Any], steps: str) -> None:
    decision = decide(state, spec(**wanted), seen(labels={"a": "b"}), adopt=True)
    assert " ".join(step.kind for step in decision.steps) == steps


def test_adoption_adds_the_labels() -> None:
    decision = decide("present", spec(), seen(labels={"a": "b"}), adopt=True)
    assert decision.differences[0].want == {"a": "b", **spec().owned_labels()}


def test_lost_node_is_made_again_when_asked() -> None:
    decision = decide("present", spec(), seen(state="PREEMPTED"), recreate=True)
    kinds = [step.kind for step in decision.steps]
    assert kinds == ["delete", "wait_gone", "create", "wait_ready"]


@pytest.mark.parametrize(
    ("wanted", "there", "words"),
    [
        # Nothing is deleted before it is known how to make it again.
        ({"accelerator_type": None}, {}, "no option says what to create"),
        (
            {},
            {"queuedResource": "queuedResources/q"},
            "Delete the queued resource q and request it",
        ),
        ({}, {"labels": {}}, "adopt: true"),
    ],
)
def test_lost_node_is_not_made_again(
    wanted: dict[str, Any], there: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        decide("present", spec(**wanted), seen(state="PREEMPTED", **there), recreate=True)


def test_node_that_lives_is_not_made_again() -> None:
    assert decide("present", spec(), seen(), recreate=True).steps == []


def test_patch_holds_the_masked_fields_only() -> None:
    found = plan(spec(description="d", external_ips=False, tags=["t"], labels={"a": "b"}), seen())
    body, mask = patch_body(found)
    assert body == {
        "labels": {**OWNED, "a": "b"},
        "tags": ["t"],
        "description": "d",
        "networkConfig": {"enableExternalIps": False},
    }
    assert mask == ["labels", "tags", "description", "network_config.enable_external_ips"]


def test_diff_shows_only_what_differs() -> None:
    wanted, before = spec(labels={"a": "b"}), seen(labels={**OWNED, "a": "x", "c": "d"})
    decision = decide("present", wanted, before)
    diff = diff_of(decision, before, outcome(decision, wanted, before))
    assert diff == {"before": {"labels": {"a": "x"}}, "after": {"labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("state", "there", "before", "after"),
    [
        ("present", None, None, "CREATING"),
        ("absent", {}, "READY", None),
        ("stopped", {}, "READY", "STOPPED"),
        ("started", {"state": "STOPPED"}, "STOPPED", "READY"),
        ("present", {}, None, None),
    ],
)
def test_diff_of_states(
    state: str, there: dict[str, Any] | None, before: str | None, after: str | None
) -> None:
    node = None if there is None else seen(**there)
    decision = decide(state, spec(), node)
    diff = diff_of(decision, node, outcome(decision, spec(), node))
    assert diff["before"].get("state") == before
    assert diff["after"].get("state") == after


def test_outcome_of_a_patch_keeps_the_rest() -> None:
    wanted, before = spec(external_ips=False, labels={"a": "b"}), seen()
    after = outcome(decide("present", wanted, before), wanted, before)
    assert after is not None
    assert (after.labels["a"], after.external_ips, after.subnetwork) == ("b", False, "default")
    assert after.state == "READY"


def disk_on(*workers: int) -> dict[str, Any]:
    return {"source_disk": "d1", "read_only": False, "workers": list(workers)}


@pytest.mark.parametrize(
    ("wanted", "have", "expected"),
    [
        (disk_on(1, 0), ["0", "1"], None),
        (disk_on(1, 0), None, None),  # an answer of v2 leaves the workers out
        (disk_on(), ["0"], None),
        (disk_on(1), ["0"], ["1"]),
    ],
)
def test_plan_of_a_disk_of_some_workers(
    wanted: dict[str, Any], have: list[str] | None, expected: list[str] | None
) -> None:
    there = {**DISK, "workerIds": have} if have else DISK
    differences = plan(spec(data_disks=[wanted]), seen(dataDisks=[there]))
    assert [item.want[0].get("workerIds") for item in differences] == (
        [] if expected is None else [expected]
    )


def test_patch_of_another_disk_keeps_the_workers() -> None:
    more = {"source_disk": "d2", "read_only": True}
    (item,) = plan(spec(data_disks=[more]), seen(dataDisks=[{**DISK, "workerIds": ["1"]}]))
    assert [disk.get("workerIds") for disk in item.want] == [["1"], None]


def on_compute(**rest: Any) -> Node:
    shape = {"acceleratorType": "v6e-8", "acceleratorConfig": {"topology": "2x4"}}
    more = {"api": "compute", "machineType": "ct6e-standard-4t", "description": "first"}
    return seen(**{**shape, "runtimeVersion": "", **more, **rest})


COMPUTE_DIFFERENCES: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
    ({}, []),
    ({"machine_type": "ct6e-standard-4t", "topology": "2x4", "description": "first"}, []),
    (
        {"machine_type": "ct6e-standard-8t", "topology": "2x4"},
        [("machine_type", "ct6e-standard-4t", "ct6e-standard-8t")],
    ),
    ({"topology": "4x4"}, [("topology", "2x4", "4x4")]),
    ({"description": "second"}, [("description", "first", "second")]),
]


@pytest.mark.parametrize(("params", "found"), COMPUTE_DIFFERENCES)
def test_what_is_fixed_on_compute_engine(
    params: dict[str, Any], found: list[tuple[str, str, str]]
) -> None:
    """Both shapes of a v6e-8 have the same accelerator type, so the machine type decides."""
    wanted = spec(accelerator_type="v6e-8", **params)
    differences = plan(wanted, on_compute())
    assert [(one.field, one.have, one.want) for one in differences] == found
    assert all(one.mask is None for one in differences)


def test_a_description_of_the_tpu_api_changes_in_place() -> None:
    (found,) = plan(spec(description="d"), seen())
    assert (found.field, found.mask) == ("description", "description")
