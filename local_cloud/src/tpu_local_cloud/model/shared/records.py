"""Records of nodes and operations, and how the API shows them."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import struct
from dataclasses import asdict, dataclass, field
from typing import Any

from ...machines import MachineSpec
from . import catalog
from .schema import message, only, proto3

NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
TPU_PORT = 8470
# The tiers whose nodes Google may take back; quotas count them apart.
PREEMPTIBLE = ("spot", "preemptible", "best_effort", "flex_start")


class Stored:
    """What the store keeps."""

    def to_dict(self) -> dict[str, Any]:
        """Return what is stored."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # of a dataclass


@dataclass
class NodeRecord(Stored):
    """One node. Its owner sets `body`; the service sets the rest."""

    zone: str
    name: str
    body: dict[str, Any]
    uid: str = field(default_factory=lambda: str(secrets.randbits(62) | 1 << 61))
    state: str = "CREATING"
    health: str = ""
    created: str = ""
    # By the cloud's time: until then it exists, but is invisible.
    visible_from: float = 0.0
    api_version: str = "V2"
    # One for each worker: machine_id, internal_ip, external_ip.
    machines: list[dict[str, Any]] = field(default_factory=list)
    extra_nics: list[list[str]] = field(default_factory=list)
    guest: list[dict[str, dict[str, str]]] = field(default_factory=list)
    health_description: str = ""
    symptoms: list[dict[str, Any]] = field(default_factory=list)
    maintenance_event: str = "NONE"
    # upcomingMaintenance in the API.
    maintenance: dict[str, Any] = field(default_factory=dict)
    # Whether its machines' metadata announce their removal.
    preempted: bool = False
    # The unqualified name of the queued resource that created it, in the same zone.
    queued_resource: str = ""
    # The key of the reservation that it uses, unless its queued resource uses one.
    reservation: str = ""
    multislice: bool = False
    revision: int = 0
    # The API that shows it: tpu, or compute, where it is an instance or a group of instances.
    api: str = "tpu"
    # What only Compute Engine knows of it; compute_records.py reads it.
    compute: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return its storage key."""
        if self.api == "compute":
            return f"{self.scope.partition('/')[2]}/{self.collection}/{self.name}"
        return f"{self.zone}/{self.name}"

    @property
    def scope(self) -> str:
        """Return where it is, below its project; a group may belong to a region."""
        region = self.compute.get("group", {}).get("region")
        if region:
            return f"regions/{region}"
        return f"{'locations' if self.api == 'tpu' else 'zones'}/{self.zone}"

    @property
    def is_group(self) -> bool:
        """Return whether it is a managed instance group."""
        return "group" in self.compute

    @property
    def collection(self) -> str:
        """Return the collection that it belongs to."""
        if self.api == "tpu":
            return "nodes"
        return "instanceGroupManagers" if self.is_group else "instances"

    @property
    def accelerator_type(self) -> str:
        """Return the name of its type."""
        return str(self.body.get("acceleratorType", ""))

    @property
    def tier(self) -> str:
        """Return its tier."""
        scheduling = self.body.get("schedulingConfig", {})
        if self.api == "compute" and scheduling.get("provisioningModel") == "FLEX_START":
            return "flex_start"
        return tier_of(scheduling)

    @property
    def spot(self) -> bool:
        """Return whether the service may preempt it."""
        scheduling = self.body.get("schedulingConfig", {})
        return bool(scheduling.get("preemptible") or scheduling.get("spot"))

    @property
    def networks(self) -> list[dict[str, Any]]:
        """Return the configuration of each network card."""
        return self.body.get("networkConfigs") or [self.body.get("networkConfig", {})]

    @property
    def external_ips(self) -> bool:
        """Return whether its workers have external addresses, by the first network interface."""
        return bool(self.networks[0].get("enableExternalIps"))

    def spec(self, worker: int) -> MachineSpec:
        """Describe a worker to the machine backend."""
        machine = self.machines[worker]
        return MachineSpec(
            machine_id=machine["machine_id"],
            zone=self.zone,
            node_uid=self.uid,
            worker=worker,
            internal_ip=machine["internal_ip"],
            external_ip=machine["external_ip"],
            own_kernel=self.body.get("metadata", {}).get("local-cloud-kernel") == "own",
            shares=self.body.get("metadata", {}).get("local-cloud-share") == "yes",
            small=self.body.get("metadata", {}).get("local-cloud-machine") == "small",
            peers=self._peers,
        )

    @property
    def _peers(self) -> tuple[tuple[str, str], ...]:
        """Return the instances of a slice, which find each other by name."""
        if self.api == "tpu":
            return ()
        return tuple((each["internal_ip"], each["name"]) for each in self.machines)

    def resource(self, project: str) -> str:
        """Return the full name."""
        return f"projects/{project}/{self.scope}/{self.collection}/{self.name}"

    def render(self, project: str, version: str = "v2") -> dict[str, Any]:
        """Return the node as a version of the API shows it."""
        endpoints = []
        # A node has no addresses while it is being created.
        if self.state not in ("CREATING", "PREEMPTED", "TERMINATED"):
            for worker, machine in enumerate(self.machines):
                primary: dict[str, Any] = {"ipAddress": machine["internal_ip"], "port": TPU_PORT}
                if machine["external_ip"]:
                    primary["accessConfig"] = {"externalIp": machine["external_ip"]}
                endpoints.append(primary)
                endpoints += [
                    {"ipAddress": address, "port": TPU_PORT}
                    for address in (self.extra_nics[worker] if self.extra_nics else [])
                ]
        rendered = {
            "schedulingConfig": {},
            "serviceAccount": {},
            "shieldedInstanceConfig": {},
            **self.body,
            "name": self.resource(project),
            "id": self.uid,
            "state": self.state,
            "health": self.health,
            "healthDescription": self.health_description,
            "symptoms": self.symptoms,
            "createTime": self.created,
            # The old version does not know the new name.
            "apiVersion": "V2_ALPHA1" if version == "v2alpha1" else self.api_version,
            "networkEndpoints": endpoints,
            "cidrBlock": catalog.range_in(self.zone.rpartition("-")[0]),
            "queuedResource": self.queued_resource
            and f"projects/{project}/locations/{self.zone}/queuedResources/{self.queued_resource}",
            "multisliceNode": self.multislice,
        }
        if self.maintenance:
            rendered["upcomingMaintenance"] = self.maintenance
        result: dict[str, Any] = proto3(only(rendered, message(version, "Node")))
        return result


@dataclass
class OperationRecord(Stored):
    """One long-running operation."""

    zone: str
    verb: str
    target: str
    api_version: str = "v2"
    name: str = ""
    created: str = ""
    ended: str = ""
    request_id: str = ""
    # The request, because its id may not be reused for another request.
    request: str = ""
    cancelled: bool = False
    stuck: bool = False
    # Nothing happens to its node either.
    held: bool = False
    # The node's state when it began, restored if it fails.
    before: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    # The API that shows it.
    api: str = "tpu"
    target_id: str = ""
    # What the operations of one request for several instances have in common.
    group: str = ""

    @property
    def scope(self) -> str:
        """Return where its target is, below the project."""
        return "/".join(self.target.split("/")[2:4])

    @property
    def done(self) -> bool:
        """Return whether it is done."""
        return self.error is not None or self.response is not None

    def render(self, project: str) -> dict[str, Any]:
        """Return the operation as the API shows it, always with `done`."""
        # A type that Google's Python client knows; it refuses others.
        kind = f"google.cloud.tpu.{self.api_version}.OperationMetadata"
        metadata = proto3(
            {
                "@type": f"type.googleapis.com/{kind}",
                "createTime": self.created,
                "endTime": self.ended,
                "target": self.target,
                "verb": self.verb,
                "apiVersion": self.api_version,
            }
        )
        metadata["cancelRequested"] = self.cancelled
        # Compute Engine shows its operations in another form; this is for the cloud's owner.
        places = "locations" if self.api == "tpu" else "zones"
        shown: dict[str, Any] = {
            "name": f"projects/{project}/{places}/{self.zone}/operations/{self.name}",
            "metadata": metadata,
            "done": self.done and not self.stuck,
        }
        if shown["done"]:
            shown["error" if self.error else "response"] = self.error or self.response
        return shown


@dataclass
class Task:
    """A scheduled change of a node, by the cloud's clock."""

    kind: str
    node: str
    due: float
    operation: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    started: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the stored form: a running task starts again after a restart."""
        return {**asdict(self), "started": False}


def operation_name(moment: float) -> str:
    """Return a new operation's id, which begins with the milliseconds of its moment."""
    random = secrets.token_hex(15)
    return f"operation-{int(moment * 1000)}-{random[:13]}-{random[13:21]}-{random[21:29]}"


def tier_of(scheduling: dict[str, Any]) -> str:
    """Return the tier of a scheduling configuration."""
    model = scheduling.get("provisioningModel")
    if scheduling.get("spot") or model == "SPOT":
        return "spot"
    if scheduling.get("preemptible"):
        return "preemptible"
    if scheduling.get("reserved") or model == "RESERVATION_BOUND":
        return "reserved"
    return "on_demand"


def made_up_host_key(machine_id: str) -> str:
    """Return a well-formed public key for a machine that does not exist, always the same."""
    kind = b"ssh-ed25519"
    key = hashlib.sha256(machine_id.encode()).digest()
    blob = struct.pack(">I", len(kind)) + kind + struct.pack(">I", len(key)) + key
    return base64.b64encode(blob).decode()
