"""The networks of a project, and their subnetworks: in auto mode one in each region."""

from __future__ import annotations

import re
from typing import Protocol

from .surroundings import Surroundings

NETWORK = "default"
# When Google made it and its firewall rules, which is with the project.
MADE = "2026-01-01T00:00:00.000-08:00"
_LINK = re.compile(
    r"(?:https?://[^/]+/(?:compute/(?:v1|beta|alpha)/)?)?(?:projects/(?P<project>[^/]+)/)?"
    r"(?:(?P<scope>global|regions/[^/]+)/(?P<collection>networks|subnetworks)/)?(?P<name>[^/]+)"
)


class Project(Protocol):
    """What a project is called, and what it has besides TPUs."""

    project: str
    number: str
    around: Surroundings


def names(project: Project) -> list[str]:
    """Return the names of the networks."""
    return [NETWORK, *(str(each["name"]) for each in project.around.networks)]


def in_auto_mode(project: Project) -> list[str]:
    """Return the names of the networks whose subnetworks have their name, in each region."""
    found = (each for each in project.around.networks if each["autoCreateSubnetworks"])
    return [NETWORK, *(str(each["name"]) for each in found)]


def subnetworks_in(project: Project, region: str) -> list[str]:
    """Return the names of the subnetworks in a region."""
    made = (each for each in project.around.subnetworks if each["region"] == region)
    return [*in_auto_mode(project), *(str(each["name"]) for each in made)]


def is_network(project: Project, text: str) -> bool:
    """Return whether a name or link is that of a network of the project."""
    return _is(project, text, names(project), "networks", "global")


def is_subnetwork(project: Project, text: str, region: str) -> bool:
    """Return whether a name or link is that of a subnetwork of the project in a region."""
    known = subnetworks_in(project, region)
    return _is(project, text, known, "subnetworks", f"regions/{region}")


def _is(project: Project, text: str, known: list[str], collection: str, scope: str) -> bool:
    found = _LINK.fullmatch(text)
    if found is None or found["name"] not in known:
        return False
    place = (found["collection"], found["scope"])
    own = (None, project.project, project.number)
    return found["project"] in own and place in ((None, None), (collection, scope))
