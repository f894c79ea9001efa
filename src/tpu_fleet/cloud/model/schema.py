"""The fields of the messages that clients send, and proto3's JSON habits.

Tests compare the tables with Google's discovery documents.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import errors


@dataclass(frozen=True)
class Enum:
    """An enum that clients set: its name in Google's proto files, its values and their numbers."""

    name: str
    values: tuple[str, ...]
    numbers: tuple[int, ...]


# A field is a scalar kind, "map", an enum, a message (dict), or a list of one of them (list with
# one item). Enums that only answers carry are strings.
Spec = str | Enum | dict[str, Any] | list[Any]

STRING, BOOL, INT, INT64, MAP = "TYPE_STRING", "TYPE_BOOL", "TYPE_INT32", "TYPE_INT64", "map"
ANY = "any"
TYPE = Enum(
    "AcceleratorConfig.Type",
    ("TYPE_UNSPECIFIED", "V2", "V3", "V4", "V5LITE_POD", "V5P", "V6E"),
    (0, 2, 4, 7, 9, 10, 11),
)
MODE = Enum(
    "AttachedDisk.DiskMode", ("DISK_MODE_UNSPECIFIED", "READ_WRITE", "READ_ONLY"), (0, 1, 2)
)
_MODELS = ("PROVISIONING_MODEL_UNSPECIFIED", "STANDARD", "SPOT", "RESERVATION_BOUND")
NODE_MODEL = Enum("SchedulingConfig.ProvisioningModel", _MODELS, (0, 1, 2, 3))
QUEUED_MODEL = Enum("QueuedResource.ProvisioningModel", (*_MODELS, "FLEX_START"), (0, 1, 2, 3, 4))
WORKLOAD = Enum(
    "MultiNodeParams.WorkloadType",
    ("WORKLOAD_TYPE_UNSPECIFIED", "THROUGHPUT_OPTIMIZED", "AVAILABILITY_OPTIMIZED"),
    (0, 1, 2),
)
ENUMS = {enum.values: enum for enum in (TYPE, MODE, NODE_MODEL, QUEUED_MODEL, WORKLOAD)}

_NETWORK: dict[str, Spec] = {
    "network": STRING,
    "subnetwork": STRING,
    "enableExternalIps": BOOL,
    "canIpForward": BOOL,
    "queueCount": INT,
}
_MAINTENANCE: dict[str, Spec] = {
    "type": STRING,
    "canReschedule": BOOL,
    "windowStartTime": STRING,
    "windowEndTime": STRING,
    "latestWindowStartTime": STRING,
    "maintenanceStatus": STRING,
}
_ENDPOINT: dict[str, Spec] = {
    "ipAddress": STRING,
    "port": INT,
    "accessConfig": {"externalIp": STRING},
}
_DISK: dict[str, Spec] = {"sourceDisk": STRING, "mode": MODE}
_KEY: dict[str, Spec] = {"kmsKeyName": STRING}

NODE: dict[str, Spec] = {
    "name": STRING,
    "id": INT64,
    "description": STRING,
    "acceleratorType": STRING,
    "acceleratorConfig": {"type": TYPE, "topology": STRING},
    "state": STRING,
    "health": STRING,
    "healthDescription": STRING,
    "runtimeVersion": STRING,
    "networkConfig": _NETWORK,
    "networkConfigs": [_NETWORK],
    "networkEndpoints": [_ENDPOINT],
    "cidrBlock": STRING,
    "serviceAccount": {"email": STRING, "scope": [STRING]},
    "createTime": STRING,
    "schedulingConfig": {"preemptible": BOOL, "reserved": BOOL, "spot": BOOL},
    "dataDisks": [_DISK],
    "labels": MAP,
    "metadata": MAP,
    "tags": [STRING],
    "apiVersion": STRING,
    "symptoms": [
        {"createTime": STRING, "symptomType": STRING, "details": STRING, "workerId": STRING}
    ],
    "shieldedInstanceConfig": {"enableSecureBoot": BOOL},
    "queuedResource": STRING,
    "multisliceNode": BOOL,
    "upcomingMaintenance": _MAINTENANCE,
    "bootDiskConfig": {"customerEncryptionKey": _KEY},
    "protectionTier": STRING,
}
NODE_ALPHA: dict[str, Spec] = {
    **{name: spec for name, spec in NODE.items() if name != "protectionTier"},
    "schedulingConfig": {
        "preemptible": BOOL,
        "reserved": BOOL,
        "spot": BOOL,
        "provisioningModel": NODE_MODEL,
        "reservationName": STRING,
        "terminationTimestamp": STRING,
    },
    "dataDisks": [{**_DISK, "workerIds": [STRING]}],
    "bootDiskConfig": {
        "customerEncryptionKey": _KEY,
        "diskSizeGb": INT64,
        "sourceImage": STRING,
        "enableConfidentialCompute": BOOL,
        "provisionedIops": INT64,
        "provisionedThroughput": INT64,
        "storagePool": STRING,
    },
    "autocheckpointEnabled": BOOL,
}
NODES: dict[str, dict[str, Spec]] = {"v2": NODE, "v2alpha1": NODE_ALPHA}

_INTERVAL: dict[str, Spec] = {"startTime": STRING, "endTime": STRING}
_MANY: dict[str, Spec] = {"nodeCount": INT, "nodeIdPrefix": STRING}
_SPEC: dict[str, Spec] = {"parent": STRING, "nodeId": STRING}
QUEUED_V2: dict[str, Spec] = {
    "name": STRING,
    "createTime": STRING,
    "tpu": {"nodeSpec": [{**_SPEC, "node": NODE, "multisliceParams": _MANY}]},
    "spot": {},
    "guaranteed": {"minDuration": STRING},
    "queueingPolicy": {
        "validUntilDuration": STRING,
        "validUntilTime": STRING,
        "validAfterDuration": STRING,
        "validAfterTime": STRING,
        "validInterval": _INTERVAL,
    },
    "reservationName": STRING,
    "state": {
        "state": STRING,
        "stateInitiator": STRING,
        "creatingData": {},
        "acceptedData": {},
        "provisioningData": {},
        "failedData": {"error": {"code": INT, "message": STRING, "details": [ANY]}},
        "deletingData": {},
        "activeData": {},
        "suspendingData": {},
        "suspendedData": {},
    },
}
QUEUED_ALPHA: dict[str, Spec] = {
    **QUEUED_V2,
    "tpu": {
        "nodeSpec": [
            {**_SPEC, "node": NODE_ALPHA, "multiNodeParams": {**_MANY, "workloadType": WORKLOAD}}
        ]
    },
    "guaranteed": {"minDuration": STRING, "reserved": BOOL},
    "bestEffort": {},
    "provisioningModel": QUEUED_MODEL,
    "runDuration": {"maxRunDuration": STRING, "terminationTime": STRING},
}
QUEUED: dict[str, dict[str, Spec]] = {"v2": QUEUED_V2, "v2alpha1": QUEUED_ALPHA}
PERFORM_ON_NODES: dict[str, Spec] = {"nodeNames": [STRING]}
GUEST_ATTRIBUTES: dict[str, Spec] = {"queryPath": STRING, "workerIds": [STRING]}
SIMULATE: dict[str, Spec] = {"workerIds": [STRING]}
EMPTY: dict[str, Spec] = {}

# What a client may set; the rest of a node is the service's own, and is ignored when it is sent.
OUTPUT_ONLY = (
    "name",
    "id",
    "state",
    "health",
    "healthDescription",
    "networkEndpoints",
    "createTime",
    "apiVersion",
    "symptoms",
    "queuedResource",
    "multisliceNode",
    "upcomingMaintenance",
    "protectionTier",
)
QUEUED_OUTPUT_ONLY = ("name", "createTime", "state")
# With patch. networkConfig means its enableExternalIps alone.
UPDATABLE = {
    "description": "description",
    "tags": "tags",
    "labels": "labels",
    "metadata": "metadata",
    "data_disks": "dataDisks",
    "network_config.enable_external_ips": "networkConfig",
}


@functools.cache
def snake(name: str) -> str:
    """Return the proto name of a JSON name."""
    return re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name)


def parse(
    body: Any, message: dict[str, Spec], where: str = "", version: str = "v2"
) -> dict[str, Any]:
    """Return a request in camelCase, or refuse it as Google does: all unknown names at once."""
    reading = _Reading(version, [])
    parsed = _message(body, message, where, reading)
    if reading.unknown:
        raise errors.unknown_fields(reading.unknown)
    return parsed


class _Reading(NamedTuple):
    version: str
    unknown: list[tuple[str, str]]


def _message(body: Any, message: dict[str, Spec], where: str, reading: _Reading) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise errors.invalid_value(where or "body", "TYPE_MESSAGE", body)
    names = {snake(name): name for name in message} | {name: name for name in message}
    # Clients send whole nodes back; nobody reads what is not theirs to set.
    passed_over: tuple[str, ...] = ()
    if any(message is node for node in NODES.values()):
        passed_over = OUTPUT_ONLY
    elif any(message is queued for queued in QUEUED.values()):
        passed_over = QUEUED_OUTPUT_ONLY
    parsed: dict[str, Any] = {}
    for key, value in body.items():
        if key not in names:
            reading.unknown.append((key, where))
        elif value is not None and names[key] not in passed_over:
            name = names[key]
            if isinstance(value, list) and not isinstance(message[name], list):
                raise errors.not_repeated(key, where)
            path = f"{where}.{snake(name)}" if where else snake(name)
            parsed[name] = _value(value, message[name], path, reading)
    return parsed


def _value(value: Any, spec: Spec, path: str, reading: _Reading) -> Any:
    if isinstance(spec, list):
        # One item stands for a list of it.
        if not isinstance(value, list):
            return [_value(value, spec[0], path, reading)]
        return [_value(item, spec[0], f"{path}[{i}]", reading) for i, item in enumerate(value)]
    if isinstance(spec, dict):
        return _message(value, spec, path, reading)
    if isinstance(spec, Enum):
        return _enum(value, spec, path, reading.version)
    if spec == MAP:
        if not isinstance(value, dict):
            raise errors.invalid_value(path, "map", value)
        return {k: _value(v, STRING, f"{path}[{k}]", reading) for k, v in value.items()}
    if spec == BOOL:
        if not isinstance(value, bool):
            raise errors.invalid_value(path, spec, value)
    elif spec in (INT, INT64):
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", str(value)):
            raise errors.invalid_value(path, spec, value)
        return str(value) if spec == INT64 else int(value)
    elif not isinstance(value, str):
        raise errors.invalid_value(path, spec, value)
    return value


def _enum(value: Any, enum: Enum, path: str, version: str) -> str:
    """Return the name of an enum's value, for which clients may send its number."""
    if isinstance(value, int) and not isinstance(value, bool) and value in enum.numbers:
        return enum.values[enum.numbers.index(value)]
    if value not in enum.values:
        kind = f"type.googleapis.com/google.cloud.tpu.{version}.{enum.name}"
        raise errors.invalid_value(path, kind, value)
    return str(value)


def only(value: Any, spec: Spec) -> Any:
    """Return a message with the fields alone that a version of the API knows."""
    if isinstance(spec, dict) and isinstance(value, dict):
        return {name: only(item, spec[name]) for name, item in value.items() if name in spec}
    if isinstance(spec, list) and isinstance(value, list):
        return [only(item, spec[0]) for item in value]
    return value


def proto3(value: Any) -> Any:
    """Leave out what proto3's JSON leaves out: false, zero, empty strings, empty lists and maps.

    An empty message stays when it is a field of its own (`schedulingConfig: {}`).
    """
    if isinstance(value, dict):
        return {
            key: proto3(item)
            for key, item in value.items()
            if (isinstance(item, dict) and key not in ("labels", "metadata")) or item
        }
    if isinstance(value, list):
        return [proto3(item) for item in value]
    return value
