"""Lists of Compute Engine: filters, order, pages, and all scopes at once with those that failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..compute_errors import ComputeError
from ..errors import ApiError
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from ..model.shared import catalog
from ..model.shared.schema import COMPUTE, document, methods
from ..tpu_api import list_filter
from ..tpu_api.call import paged

LARGEST_PAGE = 500
# The scopes of all zones.
ZONES = tuple(f"zones/{zone}" for zone in catalog.ALL_ZONES)
Document = dict[str, Any]
# `field eq value`, in parentheses if there are several; the value is a regular expression.
_TERM = re.compile(
    r"""\(?\s*(?P<field>[\w.-]+)\s+(?P<sign>eq|ne)\s+"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s()]+))\s*\)?"""
)
_OLD = re.compile(r"[\w.-]+\s+(?:eq|ne)(?:\s|$)")


def page(cloud: Cloud, call: Call, place: str, shown: Iterable[Document]) -> Document:
    """Return one page of a list at a place such as `zones/Z/machineTypes`."""
    found = kept(call, list(shown))
    return {
        "kind": _kind(call.base),
        "id": f"projects/{cloud.project}/{place}",
        **_paged(call, found, "items"),
        "selfLink": operations.link(cloud, place),
    }


def of_zone(cloud: Cloud, call: Call, collection: str, shown: Iterable[Document]) -> Document:
    """Return one page of what a zone has; one that cannot be reached is a warning or a failure."""
    scope = f"zones/{call['zone']}"
    place = f"{scope}/{collection}"
    if not unreachable(cloud, [scope], f"{collection}.list"):
        return page(cloud, call, place, shown)
    if not is_true(call, "returnPartialSuccess"):
        raise unavailable([scope])
    return {**page(cloud, call, place, []), "warning": not_reached(scope)}


def aggregated(
    cloud: Cloud,
    call: Call,
    collection: str,
    shown: Iterable[tuple[str, Document]],
    scopes: Iterable[str] = ZONES,
) -> Document:
    """Return one page of what is in all scopes, given as (scope, resource).

    A scope without resources has a warning. So has one that cannot be reached, if the request
    accepts a partial answer; otherwise the request fails.
    """
    within = list(scopes)
    if is_true(call, "includeAllScopes"):
        within += ["global", *(f"regions/{r}" for r in catalog.REGIONS)]
        within += ZONES
    lost = unreachable(cloud, within, f"{collection}.aggregatedList")
    if lost and not is_true(call, "returnPartialSuccess"):
        raise unavailable(lost)
    found = [(scope, item) for scope, item in sorted(shown, key=_place) if scope not in lost]
    fitting = {id(item) for item in kept(call, [item for _, item in found])}
    answer = _paged(call, [each for each in found if id(each[1]) in fitting], "items")
    items: Document = {scope: {"warning": nothing(scope)} for scope in sorted(set(within))}
    for scope, item in answer.pop("items", []):
        if collection not in items.setdefault(scope, {}):
            items[scope] = {collection: []}
        items[scope][collection].append(item)
    items |= {scope: {"warning": not_reached(scope)} for scope in lost}
    place = f"aggregated/{collection}"
    return {
        "kind": _kind(call.base),
        "id": f"projects/{cloud.project}/{place}",
        "items": items,
        **answer,
        **({"unreachables": lost} if lost else {}),
        "selfLink": operations.link(cloud, place),
    }


def _kind(method: str) -> Any:
    """Return what the document calls the answer of a method that lists."""
    answered = methods(COMPUTE)[method]["response"]["$ref"]
    return document(COMPUTE)["schemas"][answered]["properties"]["kind"]["default"]


def _place(each: tuple[str, Document]) -> tuple[str, str]:
    return each[0], str(each[1]["name"])


def is_true(call: Call, name: str) -> bool:
    """Return whether a boolean of the query is true."""
    return call.query.get(name, "").lower() == "true"


def unreachable(cloud: Cloud, scopes: Iterable[str], method: str) -> list[str]:
    """Return the scopes that a list cannot reach now; a fault names their zones."""
    if not len(cloud.faults):
        return []
    now, zones = cloud.clock.now(), {scope for scope in scopes if scope.startswith("zones/")}
    return sorted(
        scope
        for scope in zones
        if cloud.faults.hit(
            "unreachable", now, zone=scope.partition("/")[2], method=method, service="compute"
        )
    )


def unavailable(lost: Sequence[str]) -> ComputeError:
    """A list does not answer, because a scope cannot be reached."""
    text = f"Unable to reach {', '.join(lost)}. Please try again."
    return ComputeError(503, "backendError", text, "UNAVAILABLE")


def nothing(scope: str) -> Document:
    """Return the warning of a scope without resources."""
    return _warning("NO_RESULTS_ON_PAGE", f"There are no results for scope '{scope}' on this page.",
                    scope)  # fmt: skip


def not_reached(scope: str) -> Document:
    """Return the warning of a scope that did not answer."""
    return _warning("UNREACHABLE", f"Scope '{scope}' is unreachable.", scope)


def _warning(code: str, message: str, scope: str) -> Document:
    return {"code": code, "message": message, "data": [{"key": "scope", "value": scope}]}


def kept(call: Call, shown: list[Document]) -> list[Document]:
    """Return the resources that the filter of the request selects, in the requested order."""
    text, order = call.query.get("filter", ""), call.query.get("orderBy", "")
    if order not in ("", "name", "creationTimestamp desc"):
        raise _invalid("orderBy", order, "Unsupported order.")
    if is_old(text):
        fits = _regular(text)
        text, shown = "", [item for item in shown if fits(item)]
    try:
        return list(list_filter.kept(text, order, shown, lambda item: item))
    except ApiError:
        raise _invalid("filter", text, "Invalid list filter expression.") from None


def is_old(text: str) -> bool:
    """Return whether a filter is in the old syntax: `field eq regular-expression`."""
    return bool(_OLD.search(text))


def _regular(text: str) -> Callable[[Document], bool]:
    """Return the test of a filter in the old syntax, whose terms all have to fit."""
    terms, place = [], 0
    for match in _TERM.finditer(text):
        if text[place : match.start()].strip(" ()"):
            break
        place = match.end()
        pattern = match["double"] or match["single"] or match["bare"] or ""
        terms.append((match["field"].split("."), match["sign"] == "eq", pattern))
    if text[place:].strip(" ()"):
        raise _invalid("filter", text, "Invalid list filter expression.")
    try:
        tests = [(path, wanted, re.compile(pattern)) for path, wanted, pattern in terms]
    except re.error:
        raise _invalid("filter", text, "Invalid list filter expression.") from None

    def fits(item: Document) -> bool:
        return all(
            bool(pattern.fullmatch(_text(item, path))) is wanted for path, wanted, pattern in tests
        )

    return fits


def _text(value: Any, path: list[str]) -> str:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _paged(call: Call, found: Sequence[Any], key: str) -> Document:
    size = call.query.get("maxResults", "")
    if size.isdigit() and int(size) > LARGEST_PAGE:
        raise _invalid("maxResults", size, f"Must be between 0 and {LARGEST_PAGE}, inclusive.")
    asked = (call.query.get(name, "") for name in ("filter", "orderBy"))
    of = " ".join((call.base, call["zone"], call["region"], *asked))
    return paged(size, call.query.get("pageToken", ""), found, key, lambda item: item, of=of)


def _invalid(field: str, value: str, why: str) -> ComputeError:
    return ComputeError(400, "invalid", f"Invalid value for field '{field}': '{value}'. {why}")
