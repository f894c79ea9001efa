"""Answers of the Compute API, shaped as Google's discovery document says, and an API in memory."""

from __future__ import annotations

import copy
import itertools
import re
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_bodies import (
    Shape,
    slice_bodies,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import NodeSpec
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.discovery import (
    problems,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import Answer, Call

ZONE, REGION = "us-central1-c", "us-central1"
LINKS = "https://www.googleapis.com/compute/v1/projects/p"
HOME = f"{LINKS}/zones/{ZONE}"
BORN = "2026-11-23T01:02:53.245-07:00"
SCHEMAS = {
    "instances": "Instance",
    "instanceGroupManagers": "InstanceGroupManager",
    "instanceTemplates": "InstanceTemplate",
    "resourcePolicies": "ResourcePolicy",
}
LISTS = {kind: f"{schema}AggregatedList" for kind, schema in SCHEMAS.items()}


def spec(name: str = "big", **rest: Any) -> NodeSpec:
    """Return a wanted slice."""
    kind = rest.pop("accelerator_type", "v6e-16")
    return NodeSpec(name=name, zone=ZONE, project="p", accelerator_type=kind, owner="lab", **rest)


def bodies(shape: Shape | None = None, **rest: Any) -> dict[str, Any]:
    """Return the bodies of a slice of four machines."""
    return slice_bodies(spec(**rest), shape or Shape("ct6e-standard-4t", "4x4"))


def right(schema: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return a value that is as its schema says."""
    assert problems(schema, value) == []
    return value


def tpu_env(worker: int, topology: str, kind: str) -> str:
    """Return what Google writes for a worker about its slice."""
    return f"TPU_WORKER_ID: '{worker}'\nTPU_ACCELERATOR_TYPE: '{kind}'\nTOPOLOGY: '{topology}'\n"


def metadata(**items: str) -> dict[str, Any]:
    """Return metadata as the API writes it; an underscore stands for a dash."""
    pairs = {key.replace("_", "-"): value for key, value in items.items()}
    return {
        "fingerprint": "bWV0YQ==",
        "items": [{"key": key, "value": value} for key, value in pairs.items()],
    }


def instance(name: str = "one", status: str = "RUNNING", **rest: Any) -> dict[str, Any]:
    """Return an instance with one TPU chip."""
    kind = rest.pop("machine_type", "ct6e-standard-1t")
    zone = rest.pop("zone", ZONE)
    raw = {
        "id": "6435679577574585161",
        "name": name,
        "creationTimestamp": BORN,
        "status": status,
        "zone": f"{LINKS}/zones/{zone}",
        "selfLink": f"{LINKS}/zones/{zone}/instances/{name}",
        "machineType": f"{LINKS}/zones/{zone}/machineTypes/{kind}",
        "networkInterfaces": [
            {
                "name": "nic0",
                "network": f"{LINKS}/global/networks/default",
                "subnetwork": f"{LINKS}/regions/{REGION}/subnetworks/default",
                "networkIP": "10.128.0.41",
                "accessConfigs": [
                    {"type": "ONE_TO_ONE_NAT", "name": "external-nat", "natIP": "203.0.113.41"}
                ],
            }
        ],
        "disks": [
            {"boot": True, "deviceName": "persistent-disk-0", "diskSizeGb": "100"},
            {
                "boot": False,
                "deviceName": "data",
                "mode": "READ_WRITE",
                "source": f"{HOME}/disks/data",
            },
        ],
        "labels": {"tpu-fleet": "lab", "tpu-fleet-spec": "abc", "tpu-fleet-slice": name},
        "labelFingerprint": "bGFiZWw=",
        "metadata": metadata(enable_guest_attributes="TRUE"),
        "tags": {"items": ["ssh"], "fingerprint": "dGFncw=="},
        "scheduling": {"onHostMaintenance": "TERMINATE", "provisioningModel": "STANDARD"},
        "serviceAccounts": [{"email": "1-compute@developer.gserviceaccount.com"}],
        **rest,
    }
    return right("Instance", raw)


def member(number: int, status: str = "RUNNING", name: str = "big", **rest: Any) -> dict[str, Any]:
    """Return a worker of a slice of four; names do not follow the numbers."""
    return instance(
        f"{name}-{'dcba'[number]}x{number}",
        status,
        **{
            "machine_type": "ct6e-standard-4t",
            "labels": {"tpu-fleet": "lab", "tpu-fleet-spec": "abc", "tpu-fleet-slice": name},
            "metadata": metadata(
                agent_worker_number=str(number),
                tpu_env=tpu_env(number, "4x4", "v6e-16"),
                created_by=f"projects/123/zones/{ZONE}/instanceGroupManagers/{name}",
                startup_script="true",
            ),
            **rest,
        },
    )


def group(name: str = "big", size: int = 4, **rest: Any) -> dict[str, Any]:
    """Return a group all of whose machines run."""
    status = {
        "isStable": True,
        "bulkInstanceOperation": {"inProgress": False},
        "currentInstanceStatuses": {"running": size},
        "appliedAcceleratorTopologies": [{"acceleratorTopology": "4x4", "state": "ACTIVE"}],
        **rest.pop("status", {}),
    }
    raw = {
        "id": "2713402941070686943",
        "name": name,
        "creationTimestamp": BORN,
        "zone": HOME,
        "selfLink": f"{HOME}/instanceGroupManagers/{name}",
        "instanceTemplate": f"{LINKS}/regions/{REGION}/instanceTemplates/{name}",
        "resourcePolicies": {
            "workloadPolicy": f"projects/p/regions/{REGION}/resourcePolicies/{name}"
        },
        "targetSize": size,
        "currentActions": {"none": size, "creating": 0},
        "status": status,
        **rest,
    }
    return right("InstanceGroupManager", raw)


def waiting(name: str = "big", **status: Any) -> dict[str, Any]:
    """Return a group that waits for capacity."""
    return group(
        name,
        currentActions={"creating": 4},
        status={
            "isStable": False,
            "bulkInstanceOperation": {"inProgress": True},
            "currentInstanceStatuses": {"nonExistent": 4},
            "appliedAcceleratorTopologies": [],
            **status,
        },
    )


def part(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a template or a policy as the API shows it after its creation."""
    shown = {
        **copy.deepcopy(body),
        "id": "99",
        "creationTimestamp": BORN,
        "region": f"{LINKS}/regions/{REGION}",
        "selfLink": f"{LINKS}/regions/{REGION}/{kind}/{body['name']}",
    }
    return right(SCHEMAS[kind], shown)


def template(**rest: Any) -> dict[str, Any]:
    """Return the template of a slice of four."""
    return part("instanceTemplates", bodies(**rest)["template"])


def policy(**rest: Any) -> dict[str, Any]:
    """Return the workload policy of a slice of four."""
    return part("resourcePolicies", bodies(**rest)["policy"])


def scope_of(raw: dict[str, Any]) -> str:
    """Return the scope of a resource: zones/Z, regions/R or global."""
    for key in ("zone", "region"):
        if raw.get(key):
            return f"{key}s/{str(raw[key]).rpartition('/')[2]}"
    return "global"


def aggregated(
    kind: str, items: list[dict[str, Any]], unreachable: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a list over all scopes, some of which do not answer."""
    empty = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "none"}}
    scopes: dict[str, Any] = {"zones/europe-west4-a": dict(empty)}
    for raw in items:
        scopes.setdefault(scope_of(raw), {}).setdefault(kind, []).append(raw)
    for scope in unreachable:
        scopes[scope] = {"warning": {"code": "UNREACHABLE", "message": "no answer"}}
    return right(LISTS[kind], {"kind": f"compute#{kind}", "items": scopes})


def refusal(status: int, reason: str, message: str) -> Answer:
    """Return an error as Compute Engine writes it."""
    one = {"message": message, "domain": "global", "reason": reason}
    return Answer(status, {"error": {"code": status, "message": message, "errors": [one]}})


class FakeCompute:
    """As much of the Compute API as slices need; operations end at their first look."""

    def __init__(self) -> None:
        self.resources: dict[str, dict[str, Any]] = {}
        self.operations: dict[str, dict[str, Any]] = {}
        # Answers by the id of their request, which are given again.
        self.answered: dict[str, Any] = {}
        self.unreachable: dict[str, tuple[str, ...]] = {}
        # Instead of an answer to the next request that fits: (method and path, what to do).
        self.faults: list[tuple[str, Any]] = []
        # Errors with which operations end, by method and path.
        self.failures: dict[str, dict[str, Any]] = {}
        self.calls: list[Call] = []
        self._count = itertools.count(1)

    def put(self, *resources: dict[str, Any]) -> FakeCompute:
        """Add resources as they are."""
        for raw in resources:
            self.resources[raw["selfLink"].partition("/projects/p/")[2]] = raw
        return self

    @property
    def changes(self) -> list[str]:
        """Return the requests that could change something."""
        return [
            f"{call.method} {call.path.partition('/projects/p/')[2]}"
            for call in self.calls
            if call.method != "GET" and "listManaged" not in call.path
        ]

    def __call__(self, call: Call) -> Any:
        """Answer a request."""
        self.calls.append(call)
        path = call.path.partition("/projects/p/")[2]
        for fault in self.faults:
            if re.search(fault[0], f"{call.method} {path}"):
                self.faults.remove(fault)
                if not callable(fault[1]):
                    return fault[1]
                self._answer(call, path)  # It is done, and the answer is lost.
                return fault[1]()
        return self._answer(call, path)

    def _answer(self, call: Call, path: str) -> Any:
        request = call.params.get("requestId")
        if call.method == "GET" or "listManaged" in path:
            return self._read(path)
        assert request, f"{call.method} {path} has no requestId"
        if request not in self.answered:
            self.answered[request] = self._change(call, path)
        return self.answered[request]

    def _read(self, path: str) -> Any:
        if path.startswith("aggregated/"):
            kind = path.partition("/")[2]
            found = [raw for where, raw in self.resources.items() if f"{kind}/" in where]
            return aggregated(kind, found, self.unreachable.get(kind, ()))
        if path.endswith("/operations"):
            scope = path.removesuffix("operations")
            found = [one for one in self.operations.values() if f"/{scope}" in one["targetLink"]]
            return {"items": found[::-1]}
        if "/operations/" in path:
            return self.operations[path.rpartition("/")[2]]
        if path.endswith("/listManagedInstances"):
            by = path.removesuffix("/listManagedInstances")
            name = by.rpartition("/")[2]
            return {
                "managedInstances": [
                    {"instance": raw["selfLink"], "name": raw["name"]}
                    for raw in self.resources.values()
                    if "/instances/" in raw["selfLink"] and raw["name"].startswith(f"{name}-")
                ]
            }
        if path.endswith("/instances"):
            found = [raw for where, raw in self.resources.items() if where.startswith(f"{path}/")]
            return {"items": found}
        if path in self.resources:
            return self.resources[path]
        return refusal(404, "notFound", f"The resource 'projects/p/{path}' was not found")

    def _change(self, call: Call, path: str) -> Any:
        if call.method == "DELETE":
            return self._delete(call, path)
        if path.rpartition("/")[2] in SCHEMAS:
            return self._insert(call, path)
        where, _sep, verb = path.rpartition("/")
        raw = self.resources.get(where)
        if raw is None:
            return refusal(404, "notFound", f"The resource 'projects/p/{where}' was not found")
        body = call.body or {}
        if verb == "setLabels":
            if body["labelFingerprint"] != raw["labelFingerprint"]:
                return refusal(412, "conditionNotMet", "Labels fingerprint either invalid or …")
            raw.update(labels=body["labels"], labelFingerprint=f"{next(self._count):04}")
        elif verb == "setMetadata":
            if body["fingerprint"] != raw["metadata"]["fingerprint"]:
                return refusal(412, "conditionNotMet", "Supplied fingerprint does not match …")
            raw["metadata"] = {"items": body["items"], "fingerprint": f"{next(self._count):04}"}
        elif verb == "setTags":
            raw["tags"] = body
        elif verb in ("start", "stop"):
            raw["status"] = "RUNNING" if verb == "start" else "TERMINATED"
        elif verb == "attachDisk":
            raw["disks"].append(body)
        elif verb == "detachDisk":
            gone = call.params["deviceName"]
            raw["disks"] = [disk for disk in raw["disks"] if disk["deviceName"] != gone]
        return self._operation(call, where, verb)

    def _insert(self, call: Call, path: str) -> Any:
        kind = path.rpartition("/")[2]
        assert problems(SCHEMAS[kind], call.body) == []
        where = f"{path}/{call.body['name']}"
        if where in self.resources:
            return refusal(
                409, "alreadyExists", f"The resource 'projects/p/{where}' already exists"
            )
        if kind == "instanceGroupManagers":
            for link in (
                call.body["instanceTemplate"],
                call.body["resourcePolicies"]["workloadPolicy"],
            ):
                if link.partition("projects/p/")[2] not in self.resources:
                    return refusal(404, "notFound", f"The resource '{link}' was not found")
        operation = self._operation(call, where, "insert")
        if self._failure(call, where) is None:
            scope, name = path.rpartition("/")[0], scope_key(path)
            raw = {
                **copy.deepcopy(call.body),
                "id": str(next(self._count)),
                "creationTimestamp": BORN,
                "selfLink": f"{LINKS}/{where}",
                name: f"{LINKS}/{scope}",
            }
            if kind == "instances":
                raw |= {"status": "PROVISIONING", "labelFingerprint": "MQ=="}
            self.resources[where] = raw
        return operation

    def _delete(self, call: Call, path: str) -> Any:
        if path not in self.resources:
            return refusal(404, "notFound", f"The resource 'projects/p/{path}' was not found")
        for raw in self.resources.values():
            uses = f"{raw.get('instanceTemplate')} {raw.get('resourcePolicies')}"
            if "instanceGroupManagers" in raw["selfLink"] and path in uses:
                text = f"The resource '{path}' is already being used by '{raw['selfLink']}'"
                return refusal(400, "resourceInUseByAnotherResource", text)
        del self.resources[path]
        if "/instanceGroupManagers/" in path:
            name = path.rpartition("/")[2]
            for where in [one for one in self.resources if f"/instances/{name}-" in one]:
                del self.resources[where]
        return self._operation(call, path, "delete")

    def _operation(self, call: Call, where: str, kind: str) -> dict[str, Any]:
        name = f"operation-{next(self._count)}"
        scope = where.partition("/")[0]
        operation: dict[str, Any] = {
            "name": name,
            "operationType": kind,
            "status": "RUNNING",
            "insertTime": BORN,
            "targetLink": f"{LINKS}/{where}",
        }
        if scope != "global":
            operation[scope.rstrip("s")] = f"{LINKS}/{'/'.join(where.split('/')[:2])}"
        ended = {**operation, "status": "DONE"}
        failure = self._failure(call, where)
        if failure is not None:
            ended |= {"error": {"errors": [failure]}, "httpErrorStatusCode": 503}
        self.operations[name] = right("Operation", ended)
        return operation

    def _failure(self, call: Call, where: str) -> dict[str, Any] | None:
        asked = f"{call.method} {where}"
        return next(
            (error for sign, error in self.failures.items() if re.search(sign, asked)), None
        )


def scope_key(path: str) -> str:
    """Return the field that names the scope of a path."""
    return "zone" if path.startswith("zones/") else "region"


def whole() -> FakeCompute:
    """Return an API with one slice of four machines."""
    fake = FakeCompute().put(group(), template(), policy())
    return fake.put(*[member(number) for number in range(4)])
