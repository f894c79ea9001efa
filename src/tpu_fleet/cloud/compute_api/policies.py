"""Resource policies. A workload policy says which topology the VMs of a group form."""

from __future__ import annotations

import re
from typing import Any

from ..compute_errors import ComputeError, already_exists, invalid, not_found
from ..google import operations
from ..google.answers import Call
from ..model import catalog as places
from ..model.cloud import Cloud
from . import catalog, links, lists, uses
from .methods import method

COLLECTION = "resourcePolicies"
KINDS = (
    "workloadPolicy",
    "groupPlacementPolicy",
    "instanceSchedulePolicy",
    "snapshotSchedulePolicy",
    "diskConsistencyGroupPolicy",
)
_TOPOLOGY = re.compile(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?")


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a policy. It cannot be changed afterwards."""
    region, wanted = catalog.region_of(cloud, call), call.json()
    name = str(wanted.get("name") or "")
    if not links.NAME.fullmatch(name):
        raise invalid("name", name, f"Must be a match of regex '{links.NAME.pattern}'")
    key = f"regions/{region}/{name}"
    if key in cloud.around.resource_policies:
        raise already_exists(_resource(cloud, region, name))
    kinds = [kind for kind in KINDS if kind in wanted]
    if len(kinds) != 1:
        text = f"Resource policy must have exactly one of [{', '.join(KINDS)}]."
        raise ComputeError(400, "invalid", text)
    if kinds == ["workloadPolicy"]:
        _check(wanted["workloadPolicy"])
    policy = {
        **{key: wanted[key] for key in ("name", "description", *kinds) if key in wanted},
        "id": operations.number(),
        "creationTimestamp": operations.written(cloud.clock.now()),
        "region": region,
    }
    cloud.around.resource_policies.put(key, policy)
    return _begin(cloud, "insert", policy)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one policy."""
    return show(cloud, _policy(cloud, call))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the policies of a region."""
    region = catalog.region_of(cloud, call)
    shown = [show(cloud, p) for p in cloud.around.resource_policies if p["region"] == region]
    place = f"regions/{region}/{COLLECTION}"
    return lists.page(cloud, call, "compute#resourcePolicyList", place, shown)


def aggregated(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the policies of all regions."""
    shown = [(f"regions/{p['region']}", show(cloud, p)) for p in cloud.around.resource_policies]
    regions = [f"regions/{region}" for region in places.REGIONS]
    kind = "compute#resourcePolicyAggregatedList"
    return lists.aggregated(cloud, call, kind, COLLECTION, regions, shown)


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete a policy that nothing uses."""
    policy = _policy(cloud, call)
    region, name = policy["region"], policy["name"]
    uses.refuse(cloud, "resource_policy", f"regions/{region}/{COLLECTION}/{name}")
    cloud.around.resource_policies.drop(f"regions/{region}/{name}")
    return _begin(cloud, "delete", policy)


def find(cloud: Cloud, url: str) -> dict[str, Any] | None:
    """Return the policy that a whole or partial link points to, as it is stored."""
    key = links.key(cloud, url, COLLECTION)
    return cloud.around.resource_policies.get(key) if key else None


def show(cloud: Cloud, policy: dict[str, Any]) -> dict[str, Any]:
    """Return a policy as the API shows it."""
    tail = f"regions/{policy['region']}/{COLLECTION}/{policy['name']}"
    return {
        **policy,
        "kind": "compute#resourcePolicy",
        "status": "READY",
        "region": operations.link(cloud, f"regions/{policy['region']}"),
        "selfLink": operations.link(cloud, tail),
    }


def _check(policy: dict[str, Any]) -> None:
    """Raise if a workload policy says what Google does not accept."""
    kind, topology = policy.get("type", ""), policy.get("acceleratorTopology", "")
    if not kind:
        raise invalid("workloadPolicy.type", "", "Workload policy type must be specified.")
    field = "workloadPolicy.acceleratorTopology"
    if topology and not _TOPOLOGY.fullmatch(topology):
        raise invalid(field, topology, f"Must be a match of regex '{_TOPOLOGY.pattern}'")
    if topology and kind != "HIGH_THROUGHPUT":
        why = "Accelerator topology requires the workload policy type HIGH_THROUGHPUT."
        raise invalid(field, topology, why)
    if topology and policy.get("maxTopologyDistance"):
        why = "Accelerator topology and max topology distance cannot both be specified."
        raise invalid(field, topology, why)


def _policy(cloud: Cloud, call: Call) -> dict[str, Any]:
    region, name = catalog.region_of(cloud, call), call["id"]
    found = cloud.around.resource_policies.get(f"regions/{region}/{name}")
    if found is None:
        raise not_found(_resource(cloud, region, name))
    return found


def _resource(cloud: Cloud, region: str, name: str) -> str:
    return f"projects/{cloud.project}/regions/{region}/{COLLECTION}/{name}"


def _begin(cloud: Cloud, kind: str, policy: dict[str, Any]) -> dict[str, Any]:
    scope = f"regions/{policy['region']}"
    target = f"{scope}/{COLLECTION}/{policy['name']}"
    return operations.begin(cloud, kind, target, scope, policy["id"])


_OF_REGION = "/regions/{region}/resourcePolicies"
METHODS = [
    method("GET", "/aggregated/resourcePolicies", "resourcePolicies.aggregatedList", aggregated),
    method("GET", _OF_REGION, "resourcePolicies.list", listed),
    method("POST", _OF_REGION, "resourcePolicies.insert", insert),
    method("GET", _OF_REGION + "/{id}", "resourcePolicies.get", get),
    method("DELETE", _OF_REGION + "/{id}", "resourcePolicies.delete", delete),
]
