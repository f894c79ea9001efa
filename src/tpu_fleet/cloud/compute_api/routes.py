"""One method of Compute Engine, and the path by which it is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ..google.answers import Call
from ..model.cloud import Cloud

Handler = Callable[[Cloud, Call], dict[str, Any]]
_BASE = "/compute/(?P<version>v1|beta|alpha)/projects/(?P<project>[^/:]+)"
# The permission for a method is called as the method is, apart from these verbs.
_VERBS = {"insert": "create", "aggregatedList": "list", "wait": "get", "resize": "update"}


class Route(NamedTuple):
    """One method."""

    http: str
    pattern: re.Pattern[str]
    method: str
    permission: str
    handler: Handler


def route(http: str, tail: str, method: str, handler: Handler, permission: str = "") -> Route:
    """Return the route of a method such as `instances.get`; the tail follows the project."""
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", tail)
    collection, _, verb = method.partition(".")
    needed = permission or f"{collection}.{_VERBS.get(verb, verb)}"
    return Route(http, re.compile(_BASE + pattern), method, f"compute.{needed}", handler)
