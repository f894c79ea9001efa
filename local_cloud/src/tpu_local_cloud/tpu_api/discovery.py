"""Google's discovery documents of the TPU API, from which clients generate themselves.

They also define a method's query parameters.
"""

from __future__ import annotations

import re
from typing import Any

from .. import errors
from ..model.shared import schema
from ..model.shared.schema import document, methods, snake
from . import list_filter, partial

VERSIONS = ("v2", "v2alpha1")
# By default Google serves the API's preferred version; Ray requests the other by name.
_NAMES = {"": "v2", "v2alpha": "v2alpha1"}
_PATHS = re.compile(r"/\$discovery/rest|/discovery/v1/apis/tpu/(?P<version>[^/]+)/rest")
_TRUE, _FALSE = ("true", "True", "1"), ("", "false", "False", "0")


def answer(path: str, query: dict[str, str], root: str) -> dict[str, Any] | None:
    """Return the document at a path, for an API at this root, or None."""
    match = _PATHS.fullmatch(path)
    if match is None:
        return None
    asked = match["version"] or query.get("version", "")
    version = _NAMES.get(asked, asked)
    if version not in VERSIONS:
        raise errors.no_such_discovery(asked)
    return {**document(version), "rootUrl": root, "baseUrl": root, "mtlsRootUrl": root}


def bind(version: str, name: str, query: dict[str, str]) -> dict[str, str]:
    """Return a method's query parameters by the names of its fields, or refuse the query.

    The name is one such as `nodes.create`. Parameters of all methods, such as `alt`, are left out.
    """
    method = methods(version).get(name, {})
    known = {
        name: field
        for name, field in method.get("parameters", {}).items()
        if field["location"] == "query"
    }
    names = {snake(name): name for name in known} | {name: name for name in known}
    common = document(version)["parameters"]
    given: dict[str, str] = {}
    unknown = []
    for name, value in query.items():
        if name in names:
            given[names[name]] = value
        elif name not in common and name.removeprefix("$") not in common:
            unknown.append(name)
    if unknown:
        raise errors.unknown_parameters(unknown)
    for name, value in given.items():
        kind = schema.kind_of(known[name])
        if kind in schema.RANGES and value and not schema.is_number(value, kind):
            raise errors.invalid_value(snake(name), kind, value)
        if kind == schema.BOOL and value not in (*_TRUE, *_FALSE):
            raise errors.invalid_value(snake(name), kind, value)
    _check_fields(version, method, given)
    return given


def selection(version: str, name: str, fields: str) -> partial.Mask:
    """Return the parts of a method's answer that `fields` names; empty for all of it."""
    method = methods(version).get(name, {})
    return partial.of_answer(fields, document(version), method)


def is_true(value: str) -> bool:
    """Return whether a boolean of a query is true."""
    return value in _TRUE


def _check_fields(version: str, method: dict[str, Any], given: dict[str, str]) -> None:
    """Raise if a list is filtered or ordered by a field that its items do not have."""
    schemas = document(version)["schemas"]
    answered = schemas.get(method.get("response", {}).get("$ref"), {}).get("properties", {})
    item = next((f["items"] for n, f in answered.items() if "$ref" in f.get("items", {})), None)
    for field in list_filter.fields_of(given.get("filter", "")):
        if item and not has_field(schemas, item, field.split(".")):
            raise errors.invalid_filter(given["filter"], f"there is no field {field}")
    for field, _ in list_filter.order_of(given.get("orderBy", "")):
        if item and not has_field(schemas, item, field.split(".")):
            raise errors.invalid_order(given["orderBy"])


def has_field(schemas: dict[str, Any], field: dict[str, Any], path: list[str]) -> bool:
    """Return whether a field exists at a path, below another."""
    if not path:
        return True
    if "$ref" in field:
        return has_field(schemas, schemas[field["$ref"]], path)
    if "items" in field:
        return has_field(schemas, field["items"], path)
    if "additionalProperties" in field:
        return True
    names = {snake(name): name for name in field.get("properties", {})}
    name = names.get(path[0], path[0])
    inner = field.get("properties", {}).get(name)
    return inner is not None and has_field(schemas, inner, path[1:])
