"""The fields of the messages that clients send, and proto3's JSON habits.

The fields are read from Google's discovery documents.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ... import errors

DOCUMENTS = Path(__file__).parent / "discovery_documents"


@dataclass(frozen=True)
class Enum:
    """An enum: its name in Google's proto files, its values and their numbers."""

    name: str
    values: tuple[str, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class MapOf:
    """A map of any keys to messages."""

    fields: dict[str, Any]


# A field is a scalar kind, "map" (of texts), an enum, a message (dict), a map of messages, or a
# list of one of them (list with one item).
Spec = str | Enum | MapOf | dict[str, Any] | list[Any]

STRING, BOOL, INT, INT64, MAP = "TYPE_STRING", "TYPE_BOOL", "TYPE_INT32", "TYPE_INT64", "map"
UINT, UINT64 = "TYPE_UINT32", "TYPE_UINT64"
# Of whole numbers the smallest and the largest.
RANGES = {
    INT: (-(2**31), 2**31 - 1),
    UINT: (0, 2**32 - 1),
    INT64: (-(2**63), 2**63 - 1),
    UINT64: (0, 2**64 - 1),
}
# As JSON has numbers of 64 bits, and what parsers of protobuf take for booleans.
_AS_TEXT = (INT64, UINT64)
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
ANY = "any"
_KINDS = {"boolean": BOOL, "int32": INT, "uint32": UINT, "int64": INT64, "uint64": UINT64}
_KINDS |= {"float": ANY, "double": ANY, "any": ANY}
# Enums that clients set, where the documents are incomplete.
_NAMES = {"AttachedDisk.Mode": "AttachedDisk.DiskMode"}
_NUMBERS = {"AcceleratorConfig.Type": (0, 2, 4, 7, 9, 10, 11)}

# With patch. networkConfig means its enableExternalIps alone.
UPDATABLE = {
    "description": "description",
    "tags": "tags",
    "labels": "labels",
    "metadata": "metadata",
    "data_disks": "dataDisks",
    "network_config.enable_external_ips": "networkConfig",
}
# Of Compute Engine's API only v1 is here: what alpha and beta add is not checked.
COMPUTE = "compute.v1"


@functools.cache
def document(version: str) -> dict[str, Any]:
    """Return the discovery document of a version of the TPU API, or of COMPUTE."""
    name = version if version == COMPUTE else f"tpu.{version}"
    loaded: dict[str, Any] = json.loads((DOCUMENTS / f"{name}.json").read_text())
    return loaded


@functools.cache
def methods(version: str) -> dict[str, dict[str, Any]]:
    """Return the methods in the document of a version by their names, such as `nodes.list`."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [document(version)]
    while waiting:
        place = waiting.pop()
        waiting += place.get("resources", {}).values()
        for said in place.get("methods", {}).values():
            found[".".join(said["id"].split(".")[-2:])] = said
    return found


def path_pattern(path: str) -> str:
    """Return the regular expression of a path with parameters.

    Its groups are `zone`, `region`, and for what is in them `id` and `request`.
    """
    others = iter(("id", "request"))
    places = {"zone": "zone", "locationsId": "zone", "region": "region"}
    return re.sub(
        r"\{(\w+)\}", lambda found: f"(?P<{places.get(found[1]) or next(others)}>[^/:]+)", path
    )


@functools.cache
def message(version: str, name: str) -> dict[str, Spec]:
    """Return the fields of a message."""
    properties = document(version)["schemas"][name].get("properties", {})
    return {key: _spec(version, name, key, said) for key, said in properties.items()}


def _spec(version: str, owner: str, name: str, said: dict[str, Any]) -> Spec:
    if "$ref" in said:
        return message(version, said["$ref"])
    if said["type"] == "array":
        return [_spec(version, owner, name, said["items"])]
    if "properties" in said:
        inner = said["properties"].items()
        return {key: _spec(version, f"{owner}.{name}", key, each) for key, each in inner}
    if said["type"] == "object":
        entry = said.get("additionalProperties", {}).get("$ref")
        if entry:
            return MapOf(message(version, entry))
        return MAP if said.get("additionalProperties", {}).get("type") == "string" else ANY
    if "enum" in said:
        path = f"{owner}.{name[0].upper()}{name[1:]}"
        numbers = _NUMBERS.get(path, tuple(range(len(said["enum"]))))
        if version == COMPUTE:
            # Its numbers are hashes that the document does not contain.
            numbers = ()
        return Enum(_NAMES.get(path, path), tuple(said["enum"]), numbers)
    return kind_of(said)


@functools.cache
def _made(version: str) -> frozenset[str]:
    """Return the messages of the resources that clients make."""
    making = (
        said for name, said in methods(version).items() if name.endswith((".insert", ".create"))
    )
    return frozenset(said["request"]["$ref"] for said in making)


@functools.cache
def output_only(version: str, name: str) -> frozenset[str]:
    """Return the fields that clients may not set, and those that are ignored."""
    properties = document(version)["schemas"][name].get("properties", {})
    marked = {key for key, said in properties.items() if said.get("readOnly")}
    # Clients send a node's health back; it cannot be set, although the document does not say so.
    return frozenset(marked | {"health"} if name == "Node" else marked)


@functools.cache
def snake(name: str) -> str:
    """Return the proto name of a JSON name."""
    return re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name)


def parse(body: Any, name: str, where: str = "", version: str = "v2") -> dict[str, Any]:
    """Return a request in camelCase, or refuse it as Google does: all unknown names together."""
    reading = _Reading(version, [])
    parsed = _message(body, message(version, name), where, reading)
    if reading.unknown:
        raise errors.unknown_fields(reading.unknown)
    return parsed


class _Reading(NamedTuple):
    version: str
    unknown: list[tuple[str, str]]


def _message(body: Any, fields: dict[str, Spec], where: str, reading: _Reading) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise errors.invalid_value(where or "body", "TYPE_MESSAGE", body)
    names = {snake(name): name for name in fields} | {name: name for name in fields}
    # Clients send whole nodes back; fields that they cannot set are ignored.
    passed_over: frozenset[str] = frozenset()
    for resource in _made(reading.version):
        if fields is message(reading.version, resource):
            passed_over = output_only(reading.version, resource)
    parsed: dict[str, Any] = {}
    for key, value in body.items():
        if key not in names:
            reading.unknown.append((key, where))
        elif value is not None and names[key] not in passed_over:
            name = names[key]
            if isinstance(value, list) and not isinstance(fields[name], list):
                raise errors.not_repeated(key, where)
            path = f"{where}.{snake(name)}" if where else snake(name)
            parsed[name] = _value(value, fields[name], path, reading)
    return parsed


def _value(value: Any, spec: Spec, path: str, reading: _Reading) -> Any:
    if isinstance(spec, list):
        # A list with one item stands for a list of such items.
        if not isinstance(value, list):
            return [_value(value, spec[0], path, reading)]
        return [_value(item, spec[0], f"{path}[{i}]", reading) for i, item in enumerate(value)]
    if isinstance(spec, dict):
        return _message(value, spec, path, reading)
    if isinstance(spec, Enum):
        return _enum(value, spec, path, reading.version)
    if isinstance(spec, MapOf):
        if not isinstance(value, dict):
            raise errors.invalid_value(path, "map", value)
        items = enumerate(value.items())
        return {k: _message(v, spec.fields, f"{path}[{i}].value", reading) for i, (k, v) in items}
    if spec == MAP:
        if not isinstance(value, dict):
            raise errors.invalid_value(path, "map", value)
        items = enumerate(value.items())
        return {k: _value(v, STRING, f"{path}[{i}].value", reading) for i, (k, v) in items}
    if spec == BOOL:
        return _bool(value, path)
    if spec in RANGES:
        return _number(value, spec, path)
    if not isinstance(value, str):
        raise errors.invalid_value(path, spec, value)
    return value


def _bool(value: Any, path: str) -> bool:
    word = str(value).lower() if isinstance(value, (str, bool, int)) else ""
    if word not in (*_TRUE, *_FALSE):
        raise errors.invalid_value(path, BOOL, value)
    return word in _TRUE


def _number(value: Any, kind: str, path: str) -> int | str:
    if isinstance(value, bool) or not is_number(str(value), kind):
        raise errors.invalid_value(path, kind, value)
    return str(value) if kind in _AS_TEXT else int(value)


def is_number(text: str, kind: str) -> bool:
    """Return whether a text is a whole number of a kind."""
    least, most = RANGES[kind]
    return bool(re.fullmatch(r"-?\d{1,20}", text)) and least <= int(text) <= most


def kind_of(field: dict[str, Any]) -> str:
    """Return the kind of a parameter or a field of a document."""
    return _KINDS.get(field.get("format", field["type"]), STRING)


def _enum(value: Any, enum: Enum, path: str, version: str) -> str:
    """Return the name of an enum's value; clients may send its number instead."""
    if isinstance(value, int) and not isinstance(value, bool) and value in enum.numbers:
        return enum.values[enum.numbers.index(value)]
    if value not in enum.values:
        api = "compute.v1" if version == COMPUTE else f"tpu.{version}"
        kind = f"type.googleapis.com/google.cloud.{api}.{enum.name}"
        raise errors.invalid_value(path, kind, value)
    return str(value)


def only(value: Any, spec: Spec) -> Any:
    """Return a message with only the fields that a version of the API has."""
    if isinstance(spec, dict) and isinstance(value, dict):
        return {name: only(item, spec[name]) for name, item in value.items() if name in spec}
    if isinstance(spec, list) and isinstance(value, list):
        return [only(item, spec[0]) for item in value]
    return value


def proto3(value: Any) -> Any:
    """Remove what proto3's JSON omits: false, zero, empty strings, empty lists and maps.

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
