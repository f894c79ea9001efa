"""Compare JSON with the schemas of Google's discovery document of the Compute API (v1, 20261106).

The file beside this one has the schemas that slices need, without their descriptions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@cache
def schemas() -> dict[str, Any]:
    """Return the schemas by their names."""
    path = Path(__file__).with_name("compute_v1_schemas.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def problems(name: str, value: Any) -> list[str]:
    """Return in what a value is not as its schema says."""
    return list(_compare({"$ref": name}, value, name))


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
