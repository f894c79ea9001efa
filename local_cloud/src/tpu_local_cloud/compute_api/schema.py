"""Requests against Google's discovery document: parameters, fields and their types."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import errors
from ..compute_errors import ComputeError, invalid_at
from ..errors import ApiError
from ..google.answers import Call
from ..model.cloud import Cloud
from ..model.shared import schema
from ..model.shared.schema import COMPUTE, snake
from ..tpu_api import list_filter, partial
from ..tpu_api.discovery import has_field
from . import lists

Handler = Callable[[Cloud, Call], dict[str, Any]]
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# The document recommends it in words, and gcloud sends it, but no method has it as a parameter.
_NOT_TOLD = ("returnPartialSuccess",)
_ZERO = "00000000-0000-0000-0000-000000000000"
_TRUE, _FALSE = ("true", "True", "1"), ("false", "False", "0")


def checked(said: dict[str, Any], handler: Handler) -> Handler:
    """Return a handler that is called with what the document says of its method.

    What alpha and beta have in addition is not known here, so their requests are passed on as
    they are.
    """

    @functools.wraps(handler)
    def check(cloud: Cloud, call: Call) -> dict[str, Any]:
        method = said if call["version"] == "v1" else {}
        if method:
            _check_query(method, call.query)
        fields = call.query.get("fields", "")
        wanted = partial.of_answer(fields, schema.document(COMPUTE), method)
        request = method.get("request", {}).get("$ref")
        if request is not None:
            call = replace(call, raw=_body(call, request))
        answer: dict[str, Any] = partial.keep(handler(cloud, call), wanted)
        return answer

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
    _check_filter(method, query.get("filter", ""))


def _check_filter(method: dict[str, Any], text: str) -> None:
    """Raise if a list is filtered by a field that its items do not have."""
    item = _item_of(method.get("response", {}))
    if item is None or lists.is_old(text):
        return
    schemas = schema.document(COMPUTE)["schemas"]
    try:
        known = all(has_field(schemas, item, f.split(".")) for f in list_filter.fields_of(text))
    except ApiError:
        known = False
    if not known:
        raise invalid_at("filter", text, "Invalid list filter expression.")


def _item_of(answered: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of what a list has, also of one of all scopes."""
    schemas = schema.document(COMPUTE)["schemas"]
    items = schemas.get(answered.get("$ref", ""), {}).get("properties", {}).get("items", {})
    scope = schemas.get(items.get("additionalProperties", {}).get("$ref", ""), {})
    inner = (field["items"] for field in scope.get("properties", {}).values() if "items" in field)
    found: dict[str, Any] | None = items.get("items") or next(inner, None)
    return found if found and "$ref" in found else None


def _check_parameter(name: str, said: dict[str, Any], value: str) -> None:
    kind = schema.kind_of(said)
    if kind in schema.RANGES and value and not schema.is_number(value, kind):
        raise errors.invalid_value(snake(name), kind, value)
    if kind == schema.BOOL and value not in (*_TRUE, *_FALSE):
        raise errors.invalid_value(snake(name), kind, value)
    if name == "requestId" and (value == _ZERO or not _UUID.fullmatch(value)):
        text = f"Invalid value for field 'requestId': '{value}'. Must be a valid UUID."
        raise ComputeError(400, "invalid", text)
