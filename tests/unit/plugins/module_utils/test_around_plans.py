"""The pure decisions about what is around the slices, by tables."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.disk_plan import (
    DiskSpec,
    may_hold_data,
    plan_absent,
    plan_present,
)
from ansible_collections.tpu.fleet.plugins.module_utils._compute.firewall_plan import (
    narrow_network,
    wider_rules,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import (
    owner_in,
    with_owner,
    without_owner,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import check_around
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import SERVICES, endpoint_of
from ansible_collections.tpu.fleet.plugins.module_utils._google.service_account_plan import (
    altered,
    require_narrow,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node

ZONE = "us-central2-b"
OURS = {"tpu-fleet": "managed", "tpu-fleet-spec": "made-empty"}
DISK = {"name": "d", "sizeGb": "20", "type": "x/diskTypes/pd-ssd", "labels": OURS}


# Where the APIs are -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "tpu", "where"),
    [
        (
            "compute",
            None,
            "https://tpu.googleapis.com/",
            "https://compute.googleapis.com/compute/v1/",
        ),
        ("iam", None, "https://tpu.mtls.googleapis.com/", "https://iam.googleapis.com/"),
        ("compute", None, "http://127.0.0.1:8470/", "http://127.0.0.1:8470/compute/v1/"),
        ("serviceusage", None, "http://localhost:8470", "http://localhost:8470/"),
        ("storage", "http://localhost:1/x", "https://tpu.googleapis.com/", "http://localhost:1/x/"),
    ],
)
def test_where_an_api_is(name: str, given: str | None, tpu: str, where: str) -> None:
    assert endpoint_of(name, given, tpu) == where


def test_an_api_elsewhere_is_not_guessed() -> None:
    with pytest.raises(_errors.TpuError, match="compute_endpoint"):
        endpoint_of("compute", None, "https://tpu.example.com/")
    assert SERVICES["compute"].env == "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"


# What errors of Compute mean ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind"),
    [
        (409, "alreadyExists", "The resource 'x' already exists", "exists"),
        (409, "conflict", "", "busy"),
        (404, "notFound", "The resource 'x' was not found", "not_found"),
        (412, "conditionNotMet", "Supplied fingerprint does not match", "bad_request"),
        (400, "resourceInUseByAnotherResource", "is already being used by", "bad_request"),
        (400, "resourceNotReady", "The resource 'x' is not ready", "busy"),
        (403, "forbidden", "Required 'compute.disks.create' permission for 'x'", "permission"),
        (403, "quotaExceeded", "Quota 'SSD_TOTAL_GB' exceeded. Limit: 500.0 in region r.", "quota"),
        (403, "rateLimitExceeded", "Rate Limit Exceeded", "rate_limit"),
    ],
)
def test_errors_of_compute(status: int, reason: str, message: str, kind: str) -> None:
    error = {"code": status, "message": message, "errors": [{"reason": reason, "domain": "global"}]}
    assert _errors.from_response(status, {"error": error}).kind == kind


# Whose something is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "owner", "after"),
    [
        ("", None, "[tpu-fleet: managed]"),
        ("Mosh", "alice", "Mosh [tpu-fleet: alice]"),
        ("Mosh [tpu-fleet: bob]", "alice", "Mosh [tpu-fleet: alice]"),
    ],
)
def test_a_description_names_its_owner_once(before: str, owner: str | None, after: str) -> None:
    assert with_owner(before, owner) == after
    assert owner_in(after) == (owner or "managed")
    assert without_owner(after) == without_owner(before)


@pytest.mark.parametrize(
    "text", ["", "tpu-fleet", "[tpu-fleet]", "[tpu-fleet: ]", "[tpu-fleet: A]"]
)
def test_other_descriptions_name_none(text: str) -> None:
    assert owner_in(text) is None


# The firewall -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["203.0.113.7", "10.0.0.0/8", "2001:db8::/32", "2001:db8::7"])
def test_small_networks_are_taken(text: str) -> None:
    assert str(narrow_network(text)).startswith(text.partition("/")[0])


@pytest.mark.parametrize(
    "text", ["0.0.0.0/0", "::/0", "0.0.0.0/7", "2001::/31", "10.0.0.1/8", "x", ""]
)
def test_large_networks_and_nonsense_are_refused(text: str) -> None:
    with pytest.raises(_errors.BadRequest):
        narrow_network(text)


@pytest.mark.parametrize(
    ("rule", "wide"),
    [
        ({"allowed": [{"IPProtocol": "all"}]}, True),
        ({"allowed": [{"IPProtocol": "udp"}]}, True),
        ({"allowed": [{"IPProtocol": "17", "ports": ["60500"]}]}, True),
        ({"allowed": [{"IPProtocol": "udp", "ports": ["1-59999", "61000-65535"]}]}, True),
        ({"allowed": [{"IPProtocol": "udp", "ports": ["53"]}]}, False),
        ({"allowed": [{"IPProtocol": "tcp"}]}, False),
        ({"allowed": [{"IPProtocol": "all"}], "disabled": True}, False),
        ({"allowed": [{"IPProtocol": "all"}], "direction": "EGRESS"}, False),
        ({"allowed": [{"IPProtocol": "all"}], "network": "x/networks/other"}, False),
        ({"allowed": [{"IPProtocol": "all"}], "sourceRanges": ["10.0.0.0/8"]}, False),
        ({"denied": [{"IPProtocol": "all"}]}, False),
        ({"name": "mine", "allowed": [{"IPProtocol": "all"}]}, False),
    ],
)
def test_which_other_rules_are_wider(rule: dict[str, Any], wide: bool) -> None:
    full = {"name": "other", "network": "x/networks/default", "sourceRanges": ["0.0.0.0/0"], **rule}
    assert bool(wider_rules([full], "default", "mine")) is wide


# Disks --------------------------------------------------------------------------------------------


def spec(**more: Any) -> DiskSpec:
    return DiskSpec(**{"name": "d", "zone": ZONE, "project": "p", **more})


def node(name: str, mode: str | None = None, workers: int = 1, **more: Any) -> Node:
    disks = [{"sourceDisk": f"projects/123/zones/{ZONE}/disks/d", "mode": mode}] if mode else []
    raw = {
        "name": f"projects/p/locations/{ZONE}/nodes/{name}",
        "state": "READY",
        "labels": {"tpu-fleet": "managed"},
        "dataDisks": [*disks, {"sourceDisk": f"projects/123/zones/{ZONE}/disks/other"}],
        "networkEndpoints": [{"ipAddress": f"10.0.0.{index}"} for index in range(workers)],
    }
    return Node.from_api({**raw, **more})


@pytest.mark.parametrize(
    ("disk", "holds"),
    [
        (DISK, False),
        ({**DISK, "labels": {"tpu-fleet": "managed"}}, True),
        ({**DISK, "labels": {}}, True),
        ({**DISK, "lastAttachTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({**DISK, "sourceSnapshot": "x/snapshots/s"}, True),
        ({**DISK, "sourceImage": "x/images/i"}, True),
    ],
)
def test_what_may_hold_data(disk: dict[str, Any], holds: bool) -> None:
    assert may_hold_data(disk) is holds
    if holds:
        with pytest.raises(_errors.Refused):
            plan_absent(spec(), disk, [])
        assert plan_absent(spec(delete_data=True, adopt=True), disk, []).steps
    else:
        assert [step.kind for step in plan_absent(spec(), disk, []).steps] == ["delete"]


@pytest.mark.parametrize(
    ("wanted", "nodes", "steps"),
    [
        ({"nodes": ("a",)}, [node("a")], ["attach a"]),
        ({"nodes": ("a",)}, [node("a", "READ_WRITE")], []),
        ({"nodes": ("a",), "mode": "READ_ONLY"}, [node("a", "READ_WRITE")],
         ["detach a", "attach a"]),
        ({"nodes": ("a",), "exclusive": True}, [node("a"), node("b", "READ_WRITE")],
         ["detach b", "attach a"]),
        ({"nodes": (), "exclusive": True}, [node("a", "READ_ONLY"), node("b", "READ_ONLY")],
         ["detach a", "detach b"]),
        ({"nodes": ("a",), "mode": "READ_ONLY"}, [node("a"), node("b", "READ_ONLY")], ["attach a"]),
        ({"nodes": ("a",), "mode": "READ_ONLY"}, [node("a", workers=4)], ["attach a"]),
        ({"nodes": ()}, [node("a", "READ_ONLY")], []),
        ({}, [node("a", "READ_ONLY")], []),
    ],
)  # fmt: skip
def test_who_gets_and_who_loses_a_disk(
    wanted: dict[str, Any], nodes: list[Node], steps: list[str]
) -> None:
    plan = plan_present(spec(**wanted), DISK, nodes)
    assert [f"{step.kind} {change.node.name}" for step, change in plan.patches] == steps
    for _step, change in plan.patches:
        # What else the node has stays.
        assert any(item["sourceDisk"].endswith("/other") for item in change.disks)


@pytest.mark.parametrize(
    ("wanted", "nodes", "words"),
    [
        ({"nodes": ("a",)}, [node("a"), node("b", "READ_WRITE")], "is attached to b"),
        ({"nodes": ("a",)}, [node("a"), node("b", "READ_ONLY")], "is attached to b"),
        ({"nodes": ("a",), "mode": "READ_ONLY"}, [node("a"), node("b", "READ_WRITE")], "to b"),
        ({"nodes": ("a",)}, [node("a", workers=2)], "has 2 workers"),
        ({"nodes": ("a",)}, [node("a", state="PREEMPTED")], "never run again"),
        ({"nodes": ("a",)}, [node("a", labels={})], "was not made by this collection"),
        ({"nodes": (), "exclusive": True}, [node("a", "READ_ONLY", labels={})], "was not made by"),
        ({"nodes": ("a",)}, [], "There is no node a"),
        ({"owner": "alice"}, [], "belongs to 'managed'"),
    ],
)
def test_who_must_not_get_or_lose_a_disk(
    wanted: dict[str, Any], nodes: list[Node], words: str
) -> None:
    with pytest.raises(_errors.TpuError, match=words):
        plan_present(spec(**wanted), DISK, nodes)


# Policies -----------------------------------------------------------------------------------------

ME, YOU = "serviceAccount:me@p.iam.gserviceaccount.com", "user:you@example.com"
SOON = {"title": "soon"}


@pytest.mark.parametrize(
    ("bindings", "grant", "revoke", "after"),
    [
        ([], ["r"], [], [{"role": "r", "members": [ME]}]),
        ([{"role": "r", "members": [ME]}], ["r"], ["s"], None),
        ([{"role": "r", "members": [YOU]}], ["r"], [], [{"role": "r", "members": [YOU, ME]}]),
        ([{"role": "r", "members": [ME, YOU]}], [], ["r"], [{"role": "r", "members": [YOU]}]),
        ([{"role": "r", "members": [ME]}], [], ["r"], []),
        ([{"role": "r", "members": [ME], "condition": SOON}], ["r"], [],
         [{"role": "r", "members": [ME], "condition": SOON}, {"role": "r", "members": [ME]}]),
        ([{"role": "r", "members": [ME], "condition": SOON}], [], ["r"], []),
    ],
)  # fmt: skip
def test_a_policy_is_altered_for_one_alone(
    bindings: list[Any], grant: list[str], revoke: list[str], after: list[Any] | None
) -> None:
    policy = {"etag": "e", "version": 3, "auditConfigs": ["kept"], "bindings": bindings}
    changed = altered(policy, ME, grant, revoke)
    assert changed == (None if after is None else {**policy, "bindings": after})


@pytest.mark.parametrize(
    "role",
    ["roles/owner", "roles/editor", "roles/viewer", "roles/storage.objectUser", "roles/tpu.admin",
     "roles/iam.serviceAccountTokenCreator", "roles/resourcemanager.projectIamAdmin", "owner",
     "roles/compute.instanceAdmin"],
)  # fmt: skip
def test_wide_roles_are_refused(role: str) -> None:
    with pytest.raises(_errors.BadRequest):
        require_narrow(role)


@pytest.mark.parametrize("role", ["roles/logging.logWriter", "projects/p/roles/myRole"])
def test_narrow_roles_are_taken(role: str) -> None:
    require_narrow(role)


# The fleet file -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ({}, []),
        ({"fleet_mosh": {"target_tags": ["mosh"]}}, []),
        ({"fleet_mosh": {"state": "absent"}}, []),
        ({"fleet_mosh": {}}, []),
        ({"fleet_mosh": {"source_ranges": ["0.0.0.0/0"], "target_tags": ["m"]}}, ["fleet_mosh"]),
        ({"fleet_mosh": {"source_ranges": [], "target_tags": ["m"]}}, ["fleet_mosh"]),
        ({"fleet_mosh": {"target_tags": ["m"]}, "fleet_slices": [{"name": "s"}]},
         ["fleet_mosh.target_tags"]),
        ({"fleet_mosh": []}, ["fleet_mosh"]),
        ({"fleet_mosh": {"tags": ["m"]}}, ["fleet_mosh.tags"]),
        ({"fleet_disks": [{"name": "d", "zone": ZONE}]}, []),
        ({"fleet_disks": [{"name": "d"}]}, ["fleet_disks[0].zone"]),
        ({"fleet_disks": [{"name": "d", "zone": "x"}]}, ["fleet_disks[0].zone"]),
        ({"fleet_disks": [{"name": "d"}, {"name": "d"}], "fleet_zone": ZONE},
         ["fleet_disks[1].name"]),
        ({"fleet_disks": [{"name": "d", "slices": ["s"]}], "fleet_zone": ZONE},
         ["fleet_disks[0].slices[0]"]),
        ({"fleet_disks": [{"name": "d", "size_gb": "20"}], "fleet_zone": ZONE},
         ["fleet_disks[0].size_gb"]),
        ({"fleet_disks": [{"name": "D"}], "fleet_zone": ZONE}, ["fleet_disks[0]"]),
        ({"fleet_service_account": {"roles": ["roles/owner"]}}, ["fleet_service_account"]),
        ({"fleet_service_account": {"buckets": [{"name": "b-1", "access": "all"}]}},
         ["fleet_service_account.buckets[0].access"]),
        ({"fleet_project_keys": [{"user": "a", "key": "x"}]}, ["fleet_project_keys[0].key"]),
        ({"fleet_services": "tpu.googleapis.com"}, ["fleet_services"]),
    ],
)  # fmt: skip
def test_mistakes_around_the_slices(data: dict[str, Any], fields: list[str]) -> None:
    assert [problem.field for problem in check_around(data)] == fields
