"""JSON schemas made of Google's discovery documents, which come with google-api-python-client."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import googleapiclient
import jsonschema

DOCUMENTS = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
COMPUTE = "compute.v1"
# `integer` in a document is a JSON number; int64 is a string of digits.
FORMATS = {
    "int64": {"pattern": r"^-?\d+$"},
    "uint64": {"pattern": r"^\d+$"},
    "google-datetime": {"pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$"},
    "google-duration": {"pattern": r"^\d+(\.\d{1,9})?s$"},
}


@cache
def document(version: str) -> dict[str, Any]:
    """Return a discovery document of the TPU API, or `compute.v1`."""
    name = version if version.startswith("compute.") else f"tpu.{version}"
    loaded: dict[str, Any] = json.loads((DOCUMENTS / f"{name}.json").read_text())
    return loaded


def _translate(field: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in field:
        return {"$ref": f"#/$defs/{field['$ref']}"}
    if field["type"] == "array":
        return {"type": "array", "items": _translate(field["items"])}
    if field["type"] == "object":
        result: dict[str, Any] = {"type": "object", "additionalProperties": False}
        result["properties"] = {k: _translate(v) for k, v in field.get("properties", {}).items()}
        extra = field.get("additionalProperties")
        if extra is not None:
            result["additionalProperties"] = extra.get("type") == "any" or _translate(extra)
        return result
    kept = {key: field[key] for key in ("type", "enum") if key in field}
    return {**kept, **FORMATS.get(field.get("format", ""), {})}


@cache
def validator(version: str, message: str) -> jsonschema.Draft202012Validator:
    """Return what checks a message of a version; fields it does not know are mistakes."""
    messages = document(version)["schemas"]
    definitions = {name: _translate(body) for name, body in messages.items()}
    # proto3 leaves an empty map out, but a message without fields is written as {}.
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{message}", "$defs": definitions})


def check(version: str, message: str, data: Any) -> None:
    """Raise what is wrong with a message, all of it."""
    wrong = [f"{e.json_path}: {e.message}" for e in validator(version, message).iter_errors(data)]
    assert not wrong, f"{version} {message}: {wrong} in {json.dumps(data, indent=1)}"


@cache
def method_of(version: str, http: str, path: str) -> dict[str, Any]:
    """Return what the document says of a method, given its path below the version."""
    for resource in document(version)["resources"].values():
        for each in resource["methods"].values():
            pattern = re.sub(r"\{[^}]+\}", "[^/]+", each["flatPath"])
            if each["httpMethod"] == http and re.fullmatch(pattern, path):
                found: dict[str, Any] = each
                return found
    raise AssertionError(f"{version} has no {http} {path}")


def response_of(version: str, method: str, path: str) -> str:
    """Return the message with which a method answers, given its path below the version."""
    return str(method_of(version, method, path)["response"]["$ref"])


def check_compute(http: str, path: str, body: Any, answer: Any) -> None:
    """Raise what is wrong with a request to Compute Engine's v1 and its answer."""
    tail = path.removeprefix("/compute/v1/")
    request = method_of(COMPUTE, http, tail).get("request", {}).get("$ref")
    if request:
        check(COMPUTE, request, body)
    check(COMPUTE, response_of(COMPUTE, http, tail), answer)


def has_no_zero_values(value: Any, path: str = "$") -> list[str]:
    """Return where a message holds what proto3's JSON leaves out."""
    if isinstance(value, dict):
        return [w for k, v in value.items() for w in has_no_zero_values(v, f"{path}.{k}")]
    if isinstance(value, list):
        inner = [w for i, v in enumerate(value) for w in has_no_zero_values(v, f"{path}[{i}]")]
        return inner if value else [path]
    return [] if value else [path]
