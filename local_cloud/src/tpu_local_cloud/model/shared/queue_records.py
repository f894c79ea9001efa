"""Records of queued resources, and how the API shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...tables._schema.accelerators import parse
from .records import Stored
from .schema import message, only, proto3

QUEUED_ID = re.compile(r"[A-Za-z0-9_.~+%-]+")
# The field with the data of each state.
STATE_DATA = {
    "CREATING": "creatingData",
    "ACCEPTED": "acceptedData",
    "PROVISIONING": "provisioningData",
    "FAILED": "failedData",
    "DELETING": "deletingData",
    "ACTIVE": "activeData",
    "SUSPENDING": "suspendingData",
    "SUSPENDED": "suspendedData",
}
STATES = (*STATE_DATA, "WAITING_FOR_RESOURCES")
WAITING = ("ACCEPTED", "WAITING_FOR_RESOURCES")


@dataclass
class NodeOrder:
    """One node that a queued resource will create. `body` is its owner's request."""

    name: str
    accelerator_type: str
    body: dict[str, Any]
    multislice: bool = False


@dataclass
class QueueRecord(Stored):
    """One queued resource. Its owner sets `body`, here without the nodes."""

    zone: str
    name: str
    body: dict[str, Any]
    orders: list[NodeOrder]
    state: str = "CREATING"
    initiator: str = ""
    error: dict[str, Any] | None = None
    created: str = ""
    api_version: str = "v2"
    # By the cloud's time, in seconds: when nodes may be created, and when they must end.
    not_before: float | None = None
    not_after: float | None = None
    run_seconds: float | None = None
    ends: float | None = None
    visible_from: float = 0.0
    # Since when it waits, by the same time.
    waits_since: float = 0.0
    # Whether the cloud's owner keeps it waiting, or gives it capacity.
    held: bool = False
    granted: bool = False
    # The key of the reservation that its capacity comes from.
    reservation: str = ""
    # The target of winding it down: SUSPENDED, FAILED, RESET, WAIT or GONE.
    fate: str = ""
    # The reset or delete operation that ends with it.
    operation: str = ""
    # The requested maintenance: its operation, and the nodes that are not back yet.
    maintenance: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> QueueRecord:
        """Parse what to_dict returned."""
        return cls(**{**stored, "orders": [NodeOrder(**order) for order in stored["orders"]]})

    @property
    def key(self) -> str:
        """Return its storage key, which differs from any node's."""
        return f"{self.zone}/queuedResources/{self.name}"

    @property
    def tier(self) -> str:
        """Return its tier: on_demand, spot, guaranteed, reserved and so on."""
        model = self.body.get("provisioningModel", "")
        if "spot" in self.body or model == "SPOT":
            return "spot"
        if "bestEffort" in self.body:
            return "best_effort"
        if model == "FLEX_START":
            return "flex_start"
        guaranteed = self.body.get("guaranteed")
        bound = model == "RESERVATION_BOUND" or self.body.get("reservationName")
        if bound or (guaranteed or {}).get("reserved"):
            return "reserved"
        return "on_demand" if guaranteed is None else "guaranteed"

    @property
    def place(self) -> dict[str, Any]:
        """Return the properties by which a fault matches it: any of its nodes and types."""
        return {
            "zone": self.zone,
            "queued": self.name,
            "node": [order.name for order in self.orders],
            "accelerator_type": [order.accelerator_type for order in self.orders],
            "tier": self.tier,
            "service": "tpu",
        }

    @property
    def chips(self) -> int:
        """Return how many chips its nodes have or will have."""
        known = [parse(order.accelerator_type) for order in self.orders]
        return sum(kind.chips for kind in known if kind)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels that all its nodes have."""
        found = [order.body.get("labels", {}).items() for order in self.orders]
        return dict(set.intersection(*map(set, found))) if found else {}

    def scheduling(self) -> dict[str, Any]:
        """Return how its nodes are scheduled, with the client's settings of a node added."""
        model = self.body.get("provisioningModel", "")
        wanted: dict[str, Any] = {}
        if self.tier in ("spot", "best_effort"):
            # The old tier best effort corresponds to old preemptible nodes.
            wanted["spot" if self.tier == "spot" else "preemptible"] = True
        elif self.tier == "reserved":
            wanted["reserved"] = True
        # Nodes have no provisioning model FLEX_START.
        if model in ("STANDARD", "SPOT", "RESERVATION_BOUND"):
            wanted["provisioningModel"] = model
        name = self.body.get("reservationName", "")
        if name and not name.endswith("/-"):
            wanted["reservationName"] = name
        return wanted

    def node_body(self, order: NodeOrder) -> dict[str, Any]:
        """Return the body from which a node is created."""
        own = {**order.body.get("schedulingConfig", {}), **self.scheduling()}
        return {**order.body, "schedulingConfig": own}

    def resource(self, project: str) -> str:
        """Return the full name."""
        return f"projects/{project}/locations/{self.zone}/queuedResources/{self.name}"

    def render(self, project: str, version: str = "v2") -> dict[str, Any]:
        """Return the queued resource as a version of the API shows it, a spec for each node."""
        parent = f"projects/{project}/locations/{self.zone}"
        specs = [
            {
                "parent": parent,
                "nodeId": order.name,
                "node": {
                    "serviceAccount": {},
                    "shieldedInstanceConfig": {},
                    **self.node_body(order),
                    "queuedResource": self.resource(project),
                    "multisliceNode": order.multislice,
                },
            }
            for order in self.orders
        ]
        state: dict[str, Any] = {"state": self.state}
        if self.state in ("SUSPENDING", "SUSPENDED"):
            state["stateInitiator"] = self.initiator
        if self.state in STATE_DATA:
            data = {"error": self.error} if self.state == "FAILED" and self.error else {}
            state[STATE_DATA[self.state]] = data
        rendered = {
            **self.body,
            "name": self.resource(project),
            "createTime": self.created,
            "tpu": {"nodeSpec": specs},
            "state": state,
        }
        result: dict[str, Any] = proto3(only(rendered, message(version, "QueuedResource")))
        return result


@dataclass
class ReservationRecord(Stored):
    """Capacity that the cloud's owner set aside, in chips."""

    zone: str
    name: str
    accelerator_type: str = ""
    chips: int = 0
    state: str = "ACTIVE"
    start: str = ""
    end: str = ""

    @property
    def key(self) -> str:
        """Return its storage key."""
        return f"{self.zone}/{self.name}"

    def render(self, project: str, used: int) -> dict[str, Any]:
        """Return the reservation as the API shows it."""
        standard = {
            "size": self.chips,
            "capacityUnits": "CHIPS",
            "resourceType": self.accelerator_type,
            "interval": {"startTime": self.start, "endTime": self.end},
            "usage": {"total": str(used) if used else ""},
        }
        shown = {
            "name": f"projects/{project}/locations/{self.zone}/reservations/{self.name}",
            "standard": standard,
            "state": self.state,
        }
        result: dict[str, Any] = proto3(shown)
        return result
