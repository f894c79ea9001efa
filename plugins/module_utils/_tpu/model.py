# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of the Cloud TPU API as typed values, which slices of Compute Engine become as well.

Enums stay open strings and unknown fields stay in `raw`, because the API may add values and fields.
Its JSON omits empty, false and zero fields, so this module never indexes a field directly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# The two APIs that have slices.
TPU, COMPUTE = "tpu", "compute"

PENDING_STATES = frozenset({"CREATING", "STARTING", "RESTARTING", "REIMAGING", "REPAIRING"})
LOST_STATES = frozenset({"PREEMPTED", "TERMINATED"})

_FRACTION = re.compile(r"\.(\d{1,6})\d*")


def basename(name: str) -> str:
    """Return the last part of a resource name; a name without slashes stays as it is."""
    return name.rstrip("/").rpartition("/")[2]


def part_of(name: str, collection: str) -> str:
    """Return the part after a collection in a resource name: `us-x` for `locations`."""
    parts = name.split("/")
    for kind, value in pairwise(parts):
        if kind == collection:
            return value
    return ""


def parse_time(text: str | None) -> datetime | None:
    """Return the instant of an RFC 3339 text with any number of digits, or None."""
    if not text:
        return None
    # Old Pythons accept neither "Z" nor nine digits.
    short = _FRACTION.sub(lambda match: "." + match[1].ljust(6, "0"), text, count=1)
    try:
        instant = datetime.fromisoformat(short.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Endpoint:
    """The addresses of a worker, and the name of its instance, where the API shows it."""

    internal_ip: str
    external_ip: str | None = None
    instance: str = ""


@dataclass(frozen=True)
class Node:
    """A TPU node: one slice, with one endpoint for each worker."""

    name: str
    uid: str
    project: str
    zone: str
    accelerator_type: str
    topology: str
    runtime_version: str
    state: str
    health: str
    health_description: str
    tier: str
    endpoints: list[Endpoint]
    labels: dict[str, str]
    metadata: dict[str, str]
    tags: list[str]
    data_disks: list[dict[str, Any]]
    queued_resource: str | None
    multislice: bool
    symptoms: list[dict[str, Any]]
    upcoming_maintenance: dict[str, Any] | None
    create_time: str | None
    description: str
    service_account: str
    network: str
    subnetwork: str
    external_ips: bool
    raw: dict[str, Any] = field(repr=False)
    # Which API has it: `tpu` or `compute`.
    api: str = TPU
    # Of Compute Engine only.
    machine_type: str = ""

    @classmethod
    def from_api(cls, raw: Mapping[str, Any]) -> Node:
        """Return the node that an API answer describes; every field may be absent."""
        name = text_in(raw, "name")
        config = map_in(raw, "acceleratorConfig")
        networks = [item for item in _list(raw, "networkConfigs") if isinstance(item, Mapping)]
        network = map_in(raw, "networkConfig") or (networks[0] if networks else {})
        return cls(
            name=basename(name),
            uid=text_in(raw, "id"),
            project=part_of(name, "projects"),
            zone=part_of(name, "locations"),
            accelerator_type=basename(text_in(raw, "acceleratorType")),
            topology=text_in(config, "topology"),
            runtime_version=basename(text_in(raw, "runtimeVersion")),
            state=text_in(raw, "state") or "STATE_UNSPECIFIED",
            health=text_in(raw, "health") or "HEALTH_UNSPECIFIED",
            health_description=text_in(raw, "healthDescription"),
            tier=_tier(map_in(raw, "schedulingConfig")),
            endpoints=_endpoints(raw, max(1, len(networks))),
            labels=texts_in(raw, "labels"),
            metadata=texts_in(raw, "metadata"),
            tags=[str(tag) for tag in _list(raw, "tags")],
            data_disks=[dict(disk) for disk in _list(raw, "dataDisks") if isinstance(disk, dict)],
            queued_resource=basename(text_in(raw, "queuedResource")) or None,
            multislice=bool(raw.get("multisliceNode")),
            symptoms=[dict(item) for item in _list(raw, "symptoms") if isinstance(item, dict)],
            upcoming_maintenance=dict(map_in(raw, "upcomingMaintenance")) or None,
            create_time=text_in(raw, "createTime") or None,
            description=text_in(raw, "description"),
            service_account=text_in(map_in(raw, "serviceAccount"), "email"),
            network=basename(text_in(network, "network")),
            subnetwork=basename(text_in(network, "subnetwork")),
            external_ips=bool(network.get("enableExternalIps")),
            raw=dict(raw),
            api=text_in(raw, "api") or TPU,
            machine_type=text_in(raw, "machineType"),
        )

    @property
    def created(self) -> datetime | None:
        """Return when the node was created."""
        return parse_time(self.create_time)

    @property
    def is_ready(self) -> bool:
        """Return whether the API reports the node as usable."""
        return self.state == "READY" and not self.health.startswith(("TIMEOUT", "UNHEALTHY"))

    @property
    def is_lost(self) -> bool:
        """Return whether the node will never be usable again."""
        return self.state in LOST_STATES

    @property
    def is_pending(self) -> bool:
        """Return whether the node changes to another state without a request."""
        return self.state in PENDING_STATES

    @property
    def in_words(self) -> str:
        """Return the state, and the health if it is not good."""
        fine = self.health in ("HEALTHY", "HEALTH_UNSPECIFIED")
        return self.state if fine else f"{self.state}, health {self.health}"


@dataclass(frozen=True)
class Operation:
    """A long-running operation; its name is empty if the answer with the name was lost."""

    name: str
    done: bool
    target: str = ""
    verb: str = ""
    create_time: str = ""
    end_time: str = ""
    response: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_api(cls, raw: Mapping[str, Any]) -> Operation:
        """Return the operation that an API answer describes."""
        metadata = map_in(raw, "metadata")
        return cls(
            name=text_in(raw, "name"),
            done=bool(raw.get("done")),
            target=text_in(metadata, "target"),
            verb=text_in(metadata, "verb"),
            create_time=text_in(metadata, "createTime"),
            end_time=text_in(metadata, "endTime"),
            response=dict(map_in(raw, "response")),
            error=dict(map_in(raw, "error")),
            raw=dict(raw),
        )


@dataclass(frozen=True)
class Listing(Generic[T]):
    """All pages of a list, and the zones that did not answer: unknown, not empty."""

    items: list[T]
    unreachable: list[str] = field(default_factory=list)


def _endpoints(raw: Mapping[str, Any], nics: int) -> list[Endpoint]:
    """Return one endpoint for each worker: with k NICs, every k-th entry is a worker's first."""
    entries = [item for item in _list(raw, "networkEndpoints") if isinstance(item, Mapping)]
    return [
        Endpoint(
            internal_ip=text_in(entry, "ipAddress"),
            external_ip=text_in(map_in(entry, "accessConfig"), "externalIp") or None,
            instance=text_in(entry, "instance"),
        )
        for entry in entries[::nics]
    ]


def _tier(scheduling: Mapping[str, Any]) -> str:
    model = scheduling.get("provisioningModel")
    if scheduling.get("spot") or model == "SPOT":
        return "spot"
    if model == "FLEX_START":
        return "flex_start"
    if scheduling.get("preemptible"):
        return "preemptible"
    if scheduling.get("reserved") or model == "RESERVATION_BOUND":
        return "reserved"
    return "on_demand"


def text_in(raw: Mapping[str, Any], key: str) -> str:
    """Return a field as text; empty if it is absent."""
    value = raw.get(key)
    return "" if value is None else str(value)


def map_in(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a field that is an object; empty if it is absent."""
    value = raw.get(key)
    # Each answer is read from JSON; to ask for any Mapping takes five times as long.
    return value if isinstance(value, dict) else {}


def _list(raw: Mapping[str, Any], key: str) -> list[Any]:
    value = raw.get(key)
    return value if isinstance(value, list) else []


def texts_in(raw: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return a field that is an object of texts."""
    return {str(name): str(value) for name, value in map_in(raw, key).items()}
