"""Workload policies: resource policies of a region, for slices of several instances."""

from __future__ import annotations

from typing import Any

from ..compute_errors import already_exists, in_use, not_found
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from . import lists
from .routes import route
from .times import of_stamp


def find(cloud: Cloud, url: str) -> dict[str, Any] | None:
    """Return the policy that a URL, whole or partial, names."""
    words = url.split("/")[-4:]
    if words[0:1] + words[2:3] != ["regions", "resourcePolicies"]:
        return None
    return cloud.around.resource_policies.get(f"{words[1]}/{words[3]}")


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Add a policy."""
    region, wanted = call["region"], call.json()
    scope, key = f"regions/{region}", f"{region}/{wanted.get('name')}"
    path = f"{scope}/resourcePolicies/{wanted.get('name')}"
    if key in cloud.around.resource_policies:
        raise already_exists(f"projects/{cloud.project}/{path}")
    policy = {
        "kind": "compute#resourcePolicy",
        "id": operations.number(),
        "creationTimestamp": of_stamp(cloud.clock.timestamp()),
        **wanted,
        "status": "READY",
        "region": operations.link(cloud, scope),
        "selfLink": operations.link(cloud, path),
    }
    cloud.around.resource_policies.put(key, policy)
    return operations.begin(cloud, "insert", path, scope)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one policy."""
    found = cloud.around.resource_policies.get(f"{call['region']}/{call['id']}")
    if found is None:
        path = f"regions/{call['region']}/resourcePolicies/{call['id']}"
        raise not_found(f"projects/{cloud.project}/{path}")
    return found


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the policies of a region."""
    link = operations.link(cloud, f"regions/{call['region']}")
    found = [each for each in cloud.around.resource_policies if each["region"] == link]
    return {
        "kind": "compute#resourcePolicyList",
        **lists.page(call, "items", found, lambda each: each),
    }


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Remove a policy that no group uses."""
    get(cloud, call)
    scope = f"regions/{call['region']}"
    path = f"{scope}/resourcePolicies/{call['id']}"
    users = cloud.compute.users_of_policy(path)
    if users:
        raise in_use("resource_policy", f"projects/{cloud.project}/{path}", users[0])
    cloud.around.resource_policies.drop(f"{call['region']}/{call['id']}")
    return operations.begin(cloud, "delete", path, scope)


_ALL = "/regions/{region}/resourcePolicies"
ROUTES = [
    route("GET", _ALL, "resourcePolicies.list", listed),
    route("POST", _ALL, "resourcePolicies.insert", insert),
    route("GET", _ALL + "/{id}", "resourcePolicies.get", get),
    route("DELETE", _ALL + "/{id}", "resourcePolicies.delete", delete),
]
