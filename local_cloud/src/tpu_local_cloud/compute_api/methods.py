"""One method of Compute Engine for instances, and the path by which it is found."""

from __future__ import annotations

import re
from typing import NamedTuple

from . import schema

_BASE = "/compute/(?P<version>v1|beta|alpha)/projects/"
PROJECT = "(?P<project>[^/:]+)"
# The permission for a method is called as the method is, apart from these verbs.
_VERBS = {
    "aggregatedList": "list",
    "bulkInsert": "create",
    "insert": "create",
    "patch": "update",
    "resize": "update",
    "wait": "get",
}
# The permission for these differs from that of others with the same verb.
_PERMISSIONS = {"disks.resize": "resize"}
# Permissions are those of the resource, wherever it is.
_COLLECTIONS = {
    "imageFamilyViews": "images",
    "regionAutoscalers": "autoscalers",
    "regionInstanceGroupManagers": "instanceGroupManagers",
    "regionInstanceGroups": "instanceGroups",
    "regionInstanceTemplates": "instanceTemplates",
}


class Method(NamedTuple):
    """One method."""

    http: str
    pattern: re.Pattern[str]
    name: str
    permission: str
    handler: schema.Handler


def method(
    http: str, tail: str, name: str, handler: schema.Handler, project: str = PROJECT
) -> Method:
    """Return a method such as `instances.get`, whose path has the tail below the project.

    The project is the cloud's own, or a public one.
    """
    pattern = re.compile(_BASE + project + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", tail))
    collection, _, verb = name.partition(".")
    known = _PERMISSIONS.get(name) or _VERBS.get(verb, verb)
    permission = f"compute.{_COLLECTIONS.get(collection, collection)}.{known}"
    return Method(http, pattern, name, permission, schema.checked(http, tail, handler))
