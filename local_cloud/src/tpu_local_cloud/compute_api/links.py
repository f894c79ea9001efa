"""Links to resources: whole ones, of any host and version, and the partial ones of requests."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..compute_errors import ComputeError
from ..model.cloud import Cloud

NAME = re.compile(r"(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)")
_LINK = re.compile(
    r"(?:https?://[^/]+/)?(?:compute/(?:v1|beta|alpha)/)?(?:projects/(?P<project>[^/]+)/)?"
    r"(?P<scope>global|(?:regions|zones)/[^/]+)/(?P<collection>[A-Za-z]+)/(?P<name>[^/]+)"
)


class Link(NamedTuple):
    """The place of a resource; the project is empty if the link does not name it."""

    project: str
    scope: str
    """`global`, `regions/R` or `zones/Z`."""
    collection: str
    name: str


def read(url: str) -> Link | None:
    """Return what a link points to; None if it is no link, such as a bare name."""
    match = _LINK.fullmatch(url)
    if match is None:
        return None
    return Link(match["project"] or "", match["scope"], match["collection"], match["name"])


def key(cloud: Cloud, url: str, collection: str) -> str | None:
    """Return `scope/name` of a resource of this project and collection, or None."""
    link = read(url)
    if link is None or link.collection != collection:
        return None
    if link.project not in ("", cloud.project, cloud.number):
        return None
    return f"{link.scope}/{link.name}"


def malformed(field: str, value: str) -> ComputeError:
    """A link was expected."""
    text = f"Invalid value for field 'resource.{field}': '{value}'. The URL is malformed."
    return ComputeError(400, "invalid", text)
