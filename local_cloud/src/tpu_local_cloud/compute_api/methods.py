"""The methods of Compute Engine, and the paths by which they are found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..model.shared.schema import COMPUTE, path_pattern
from ..model.shared.schema import methods as documented
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


def methods(handlers: Mapping[str, schema.Handler], project: str = PROJECT) -> list[Method]:
    """Return the methods that have these names, such as `instances.get`, in Google's document.

    The project is the cloud's own, or a public one.
    """
    return [_method(name, handler, project) for name, handler in handlers.items()]


def _method(name: str, handler: schema.Handler, project: str) -> Method:
    said = documented(COMPUTE)[name]
    path = said["flatPath"].removeprefix("projects/{project}")
    pattern = re.compile(_BASE + project + path_pattern(path))
    collection, _, verb = name.partition(".")
    known = _PERMISSIONS.get(name) or _VERBS.get(verb, verb)
    permission = f"compute.{_COLLECTIONS.get(collection, collection)}.{known}"
    return Method(said["httpMethod"], pattern, name, permission, schema.checked(said, handler))
