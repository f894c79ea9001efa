"""A zone small enough to read: nodes are there at once, operations are done at once."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    Answer,
    Call,
    error,
)

FIELDS = {
    "labels": "labels",
    "metadata": "metadata",
    "tags": "tags",
    "data_disks": "dataDisks",
    "description": "description",
}


class FakeZone:
    """Answers the requests of one project."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.unreachable: list[str] = []
        self.faults: list[Answer] = []
        self.changes: list[Any] = []
        self.made = 0

    def __call__(self, call: Call) -> Any:
        """Return the answer to a request."""
        if self.faults:
            return self.faults.pop(0)
        if "/acceleratorTypes/" in call.path:
            kind = call.path.rpartition("/")[2]
            return {"type": kind} if kind.startswith("v4-") else error(404, "NOT_FOUND", "no type")
        if call.path.endswith("/operations"):
            return {}
        if call.method != "GET":
            self.changes.append(call.method)
        if call.path.endswith("/nodes"):
            return self._create(call) if call.method == "POST" else self._list()
        name, _colon, verb = call.path.rpartition("/")[2].partition(":")
        if name not in self.nodes:
            return error(404, "NOT_FOUND", f"Resource '{name}' was not found")
        if call.method == "DELETE":
            del self.nodes[name]
        elif call.method == "PATCH":
            self._patch(self.nodes[name], call)
        elif verb == "simulateMaintenanceEvent":
            self.changes.append(call.body["workerIds"])
        elif verb:
            self.nodes[name]["state"] = {"start": "READY", "stop": "STOPPED"}[verb]
        else:
            return self.nodes[name]
        return self._done(name)

    def _list(self) -> dict[str, Any]:
        return {"nodes": list(self.nodes.values()), "unreachable": self.unreachable}

    def _create(self, call: Call) -> Any:
        name = call.params["nodeId"]
        if name in self.nodes:
            return error(409, "ALREADY_EXISTS", f"Resource '{name}' already exists")
        self.made += 1
        path = call.path.replace("v2/projects/p/", "projects/123/")
        # What is sent and what comes back are different texts, never one object.
        body = json.loads(json.dumps(call.body))
        self.nodes[name] = {
            **body,
            "name": f"{path}/{name}",
            "id": str(self.made),
            "state": "READY",
            "networkEndpoints": [{"ipAddress": "10.0.0.1"}],
        }
        return self._done(name)

    def _patch(self, node: dict[str, Any], call: Call) -> None:
        for masked in call.params["updateMask"].split(","):
            if masked == "network_config.enable_external_ips":
                node["networkConfig"].update(call.body["networkConfig"])
            else:
                node[FIELDS[masked]] = call.body[FIELDS[masked]]

    def _done(self, name: str) -> dict[str, Any]:
        metadata = {"target": f"projects/123/locations/z/nodes/{name}"}
        return {"name": "projects/123/locations/z/operations/o", "metadata": metadata, "done": True}
