"""Lists of Compute Engine: of a zone, and of all zones; with filters, pages and lost zones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..compute_errors import bad, unavailable
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from ..tpu_api import list_filter
from ..tpu_api.call import paged
from . import zones

Item = TypeVar("Item")
Show = Callable[[Any], dict[str, Any]]
LARGEST_PAGE = 500
# The old form of filters, which gcloud sends: regular expressions for whole values.
_MATCH = re.compile(
    r"""\(?\s*(?P<field>[\w.\-]+)\s+(?P<sign>eq|ne)\s+"""
    r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s)]+))\s*\)?"""
)


def of_zone(
    cloud: Cloud, call: Call, kind: str, items: Sequence[Item], show: Callable[[Item], Any]
) -> dict[str, Any]:
    """Return one page of a zone's items; `kind` is a name such as `instance`."""
    zone = zones.known(call["zone"])
    answer = {
        "kind": f"compute#{kind}List",
        "id": f"projects/{cloud.project}/zones/{zone}/{kind}s",
        "selfLink": operations.link(cloud, f"zones/{zone}/{kind}s"),
    }
    if _lost(cloud, call, [zone]):
        if not _is_true(call.query.get("returnPartialSuccess", "")):
            raise unavailable()
        return {**answer, "warning": _unreachable(f"zones/{zone}")}
    return {**answer, **page(call, "items", items, show)}


def aggregated(
    cloud: Cloud, call: Call, kind: str, key: str, items: Sequence[Item], show: Callable[[Item], Any]
) -> dict[str, Any]:
    """Return one page of the items of all zones, by zone; show gives each its link to its zone."""
    lost = _lost(cloud, call, list(zones.ZONES))
    if lost and not _is_true(call.query.get("returnPartialSuccess", "")):
        raise unavailable()
    shown = [each for each in map(show, items) if _zone_of(each) not in lost]
    found = page(call, key, shown, lambda each: each)
    scopes: dict[str, Any] = {}
    for each in found.pop(key, []):
        scopes.setdefault(f"zones/{_zone_of(each)}", {}).setdefault(key, []).append(each)
    for zone in zones.ZONES:
        scope = f"zones/{zone}"
        if zone in lost:
            scopes[scope] = {"warning": _unreachable(scope)}
        scopes.setdefault(scope, {"warning": _nothing(scope)})
    path = f"aggregated/{key}"
    answer = {
        "kind": f"compute#{kind}AggregatedList",
        "id": f"projects/{cloud.project}/{path}",
        "items": dict(sorted(scopes.items())),
        "selfLink": operations.link(cloud, path),
        **found,
    }
    return {**answer, "unreachables": [f"zones/{zone}" for zone in lost]} if lost else answer


def page(
    call: Call, key: str, items: Sequence[Item], show: Callable[[Item], Any]
) -> dict[str, Any]:
    """Return one page of the items that match the filter."""
    size = call.query.get("maxResults", "")
    if size and (not size.isdigit() or int(size) > LARGEST_PAGE):
        limits = f"must be between 0 and {LARGEST_PAGE}"
        raise bad(f"Invalid value for field 'maxResults': '{size}'. The value {limits}.")
    kept_items = kept(call.query.get("filter", ""), call.query.get("orderBy", ""), items, show)
    return paged(size, call.query.get("pageToken", ""), kept_items, key, show)


def kept(
    text: str, order: str, items: Sequence[Item], show: Callable[[Item], Any]
) -> Sequence[Item]:
    """Return the items that match a filter of either form, in the requested order."""
    tests = [match.groupdict() for match in _MATCH.finditer(text)]
    if not tests:
        return list_filter.kept(text, order, items, show)
    if _MATCH.sub("", text).replace("(", "").replace(")", "").strip():
        raise bad(f"Invalid value for field 'filter': '{text}'. Invalid list filter expression.")
    found = [item for item in items if all(_meets(test, show(item)) for test in tests)]
    return list_filter.kept("", order, found, show)


def _meets(test: dict[str, Any], shown: Any) -> bool:
    value = shown
    for name in test["field"].split("."):
        value = value.get(name) if isinstance(value, dict) else None
    said = str(value).lower() if isinstance(value, bool) else str(value or "")
    wanted = next(test[kind] for kind in ("double", "single", "bare") if test[kind] is not None)
    try:
        matches = re.fullmatch(wanted, said) is not None
    except re.error:
        raise bad(f"Invalid value for field 'filter': '{wanted}'. Invalid expression.") from None
    return matches == (test["sign"] == "eq")


def _lost(cloud: Cloud, call: Call, among: list[str]) -> list[str]:
    if not len(cloud.faults):
        return []
    now, where = cloud.clock.now(), {"service": "compute", "method": call.base}
    return [z for z in among if cloud.faults.hit("unreachable", now, zone=z, **where)]


def _zone_of(shown: dict[str, Any]) -> str:
    return str(shown.get("zone", "")).rpartition("/")[2]


def _unreachable(scope: str) -> dict[str, Any]:
    return _warning("UNREACHABLE", f"'{scope}' is unreachable.", scope)


def _nothing(scope: str) -> dict[str, Any]:
    text = f"There are no results for scope '{scope}' on this page."
    return _warning("NO_RESULTS_ON_PAGE", text, scope)


def _warning(code: str, message: str, scope: str) -> dict[str, Any]:
    return {"code": code, "message": message, "data": [{"key": "scope", "value": scope}]}


def _is_true(text: str) -> bool:
    return text.lower() == "true"
