"""Requests against Google's discovery document: parameters, fields and their types."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import errors
from ..compute_errors import ComputeError
from ..google.answers import Call
from ..model import schema
from ..model.cloud import Cloud
from ..model.schema import COMPUTE, snake

Handler = Callable[[Cloud, Call], dict[str, Any]]
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# The document recommends it in words, and gcloud sends it, but no method has it as a parameter.
_NOT_TOLD = ("returnPartialSuccess",)
_ZERO = "00000000-0000-0000-0000-000000000000"
_TRUE, _FALSE = ("true", "True", "1"), ("false", "False", "0")


def checked(http: str, tail: str, handler: Handler) -> Handler:
    """Return a handler that is called with what the document allows.

    The tail is the route's path below the project. What alpha and beta have in addition is not
    known here, so their requests are passed on as they are.
    """
    shape = re.sub(r"\{[^}]+\}", "{}", f"projects/{{}}{tail}")

    @functools.wraps(handler)
    def check(cloud: Cloud, call: Call) -> dict[str, Any]:
        method = _methods().get((http, shape))
        if method is None or call["version"] != "v1":
            return handler(cloud, call)
        _check_query(method, call.query)
        request = method.get("request", {}).get("$ref")
        if request is None:
            return handler(cloud, call)
        return handler(cloud, replace(call, raw=_body(call, request)))

    return check


def _body(call: Call, message: str) -> bytes:
    if not call.raw.strip():
        raise ComputeError(400, "required", "Required field 'resource' not specified")
    return json.dumps(schema.parse(call.json(), message, "resource", COMPUTE)).encode()


def _check_query(method: dict[str, Any], query: dict[str, str]) -> None:
    known = {k: v for k, v in method["parameters"].items() if v["location"] == "query"}
    names = {snake(name): name for name in known} | {name: name for name in known}
    common = schema.document(COMPUTE)["parameters"]
    unknown = []
    for name, value in query.items():
        if name in names:
            _check_parameter(names[name], known[names[name]], value)
        elif name not in (*common, *_NOT_TOLD) and not name.startswith("$"):
            unknown.append(name)
    if unknown:
        raise errors.unknown_parameters(unknown)


def _check_parameter(name: str, said: dict[str, Any], value: str) -> None:
    if said["type"] == "integer" and not re.fullmatch(r"-?\d*", value):
        raise errors.invalid_value(snake(name), schema.INT, value)
    if said["type"] == "boolean" and value not in (*_TRUE, *_FALSE):
        raise errors.invalid_value(snake(name), schema.BOOL, value)
    if name == "requestId" and (value == _ZERO or not _UUID.fullmatch(value)):
        text = f"Invalid value for field 'requestId': '{value}'. Must be a valid UUID."
        raise ComputeError(400, "invalid", text)


@functools.cache
def _methods() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the methods by HTTP verb and the shape of their path."""
    found = {}
    for place in schema.document(COMPUTE)["resources"].values():
        for method in place["methods"].values():
            shape = re.sub(r"\{[^}]+\}", "{}", method["flatPath"])
            found[method["httpMethod"], shape] = method
    return found
