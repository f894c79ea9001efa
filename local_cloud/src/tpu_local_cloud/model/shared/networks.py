"""The networks of a project, and their subnetworks: in auto mode one in each region."""

from __future__ import annotations

import re
from typing import Protocol

from .surroundings import Surroundings

NETWORK = "default"
# When Google made it and its firewall rules, which is with the project.
MADE = "2026-01-01T00:00:00.000-08:00"
# Range of each region's subnetwork: 10.X.0.0/20. Source: Google's page about auto mode networks,
# and for us-central2 the addresses of TPUs there.
_SECOND = {
    "africa-south1": 218,
    "asia-east1": 140,
    "asia-east2": 170,
    "asia-northeast1": 146,
    "asia-northeast2": 174,
    "asia-northeast3": 178,
    "asia-south1": 160,
    "asia-south2": 190,
    "asia-southeast1": 148,
    "asia-southeast2": 184,
    "australia-southeast1": 152,
    "australia-southeast2": 192,
    "europe-central2": 186,
    "europe-north1": 166,
    "europe-north2": 226,
    "europe-southwest1": 204,
    "europe-west1": 132,
    "europe-west10": 214,
    "europe-west12": 210,
    "europe-west2": 154,
    "europe-west3": 156,
    "europe-west4": 164,
    "europe-west6": 172,
    "europe-west8": 198,
    "europe-west9": 200,
    "me-central1": 212,
    "me-central2": 216,
    "me-west1": 208,
    "northamerica-northeast1": 162,
    "northamerica-northeast2": 188,
    "northamerica-south1": 224,
    "southamerica-east1": 158,
    "southamerica-west1": 194,
    "us-central1": 128,
    "us-central2": 130,
    "us-east1": 142,
    "us-east4": 150,
    "us-east5": 202,
    "us-south1": 206,
    "us-west1": 138,
    "us-west2": 168,
    "us-west3": 180,
    "us-west4": 182,
}
_LINK = re.compile(
    r"(?:https?://[^/]+/(?:compute/(?:v1|beta|alpha)/)?)?(?:projects/(?P<project>[^/]+)/)?"
    r"(?:(?P<scope>global|regions/[^/]+)/(?P<collection>networks|subnetworks)/)?(?P<name>[^/]+)"
)


def range_in(region: str) -> str:
    """Return the range of a region's subnetwork."""
    return f"10.{_SECOND[region]}.0.0/20"


def gateway_in(region: str) -> str:
    """Return the address of the gateway of a region's subnetwork."""
    return f"10.{_SECOND[region]}.0.1"


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
