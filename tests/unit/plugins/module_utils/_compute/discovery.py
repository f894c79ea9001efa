"""Compare JSON with the schemas of Google's discovery document of the Compute API.

The local cloud has the document. Where ansible-test runs the tests there is no local cloud, so
nothing is compared there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


_ROOT = Path(__file__).resolve().parents[5]
_DOCUMENT = (
    _ROOT / "local_cloud/src/tpu_local_cloud/model/shared/discovery_documents/compute.v1.json"
)
compares = pytest.mark.skipif(not _DOCUMENT.exists(), reason="there is no local cloud")


@cache
def schemas() -> dict[str, Any]:
    """Return the schemas by their names."""
    found: dict[str, Any] = json.loads(_DOCUMENT.read_text())["schemas"]
    return found


def problems(name: str, value: Any) -> list[str]:
    """Return in what a value is not as its schema says."""
    return list(_compare({"$ref": name}, value, name)) if _DOCUMENT.exists() else []


def _compare(schema: dict[str, Any], value: Any, where: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = {"type": "object", **schemas()[schema["$ref"]]}
    kind = _TYPES.get(schema.get("type", ""), object)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        yield f"{where} is {value!r}, not {schema['type']}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r}, not one of {schema['enum']}"
    elif schema.get("format") in ("int64", "uint64") and not str(value).isdigit():
        yield f"{where} is {value!r}, not a number as text"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _compare(schema.get("items", {}), item, f"{where}[{index}]")
    elif isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, item in value.items():
            if key not in known and others is None:
                yield f"{where} has no field {key}"
            else:
                yield from _compare(known.get(key, others or {}), item, f"{where}.{key}")
