"""Parsing of a request for a queued resource, with its errors. No effects."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any
from uuid import UUID

from ... import errors
from ..shared.clock import seconds_of
from ..shared.queue_records import QUEUED_ID, NodeOrder, QueueRecord
from ..shared.records import NODE_ID
from ..shared.schema import snake

# Google: with flex-start for at most seven days.
LONGEST_RUN = 7 * 86400.0
FLEX_GENERATIONS = ("v5e", "v5p", "v6e")
# The provisioning models allowed with each explicit tier. With best effort clients send SPOT.
_MODELS_OF = {
    "spot": ("SPOT",),
    "bestEffort": ("SPOT",),
    "guaranteed": ("STANDARD", "RESERVATION_BOUND"),
}
_TIERS = ("bestEffort", "guaranteed", "spot")
_TIMES = (
    "validUntilDuration",
    "validUntilTime",
    "validAfterDuration",
    "validAfterTime",
    "validInterval",
)
_WHERE = "queued_resource"
_DURATION = "type.googleapis.com/google.protobuf.Duration"
_TIMESTAMP = "type.googleapis.com/google.protobuf.Timestamp"
_RESERVATION = re.compile(
    r"(projects|folders|organizations)/[^/]+/locations/(?P<zone>[^/]+)/reservations/(?P<name>[^/]+)"
)


def check_request_id(request_id: str) -> None:
    """Raise if a request id is given and is no UUID."""
    try:
        if request_id:
            UUID(request_id)
    except ValueError:
        raise errors.invalid_request_id() from None


def read(
    zone: str, name: str, body: dict[str, Any], version: str, projects: tuple[str, str], now: float
) -> QueueRecord:
    """Return the requested queued resource; its nodes have no accelerator type yet."""
    if not QUEUED_ID.fullmatch(name):
        full = f"projects/{projects[0]}/locations/{zone}/queuedResources/{name}"
        raise errors.malformed_name(full)
    _check_tier(body)
    orders = _orders(zone, name, body, version, projects)
    own = {key: value for key, value in body.items() if key != "tpu"}
    record = QueueRecord(zone, name, own, orders, api_version=version)
    record.not_before, record.not_after = _times(own.get("queueingPolicy", {}), now)
    _read_run(record, now)
    if "minDuration" in own.get("guaranteed", {}):
        _duration(own["guaranteed"], "minDuration", f"{_WHERE}.guaranteed")
    reservation_of(own.get("reservationName", ""), zone)
    return record


def reservation_of(name: str, zone: str) -> str | None:
    """Return the unqualified name of the requested reservation, "-" for any, or None."""
    if not name:
        return None
    match = _RESERVATION.fullmatch(name)
    if match is None:
        raise errors.malformed_name(name)
    if match["zone"] != zone:
        raise errors.bad_request(f'The reservation "{name}" is not in the zone "{zone}".')
    return match["name"]


def _check_tier(body: dict[str, Any]) -> None:
    tiers = [tier for tier in _TIERS if tier in body]
    if len(tiers) > 1:
        raise errors.one_of(_WHERE, "tier", tiers[1])
    model = body.get("provisioningModel", "")
    if not model or model == "PROVISIONING_MODEL_UNSPECIFIED":
        return
    if tiers and model not in _MODELS_OF[tiers[0]]:
        raise errors.bad_request(f"provisioning model {model} does not go with the tier.")


def _orders(
    zone: str, name: str, body: dict[str, Any], version: str, projects: tuple[str, str]
) -> list[NodeOrder]:
    specs = body.get("tpu", {}).get("nodeSpec", [])
    if not specs:
        raise errors.bad_request("tpu.node_spec must be set.")
    orders: list[NodeOrder] = []
    for spec in specs:
        if spec.get("parent") not in [f"projects/{p}/locations/{zone}" for p in projects]:
            raise errors.bad_request(
                f'node_spec.parent "{spec.get("parent", "")}" is not the parent of the request, '
                f'"projects/{projects[0]}/locations/{zone}".'
            )
        if "node" not in spec:
            raise errors.bad_request("node_spec.node must be set.")
        many = spec.get("multisliceParams", spec.get("multiNodeParams"))
        names = _names(name, spec.get("nodeId"), many, version)
        orders += [NodeOrder(n, "", dict(spec["node"]), many is not None) for n in names]
    found = [order.name for order in orders]
    twice = sorted({n for n in found if found.count(n) > 1})
    if twice:
        raise errors.bad_request(f"node ids must be unique: {', '.join(twice)} is there twice.")
    for node in found:
        if not NODE_ID.fullmatch(node):
            parent = f"projects/{projects[0]}/locations/{zone}"
            raise errors.malformed_name(f"{parent}/nodes/{node}")
    return orders


def _names(queued: str, node: str | None, many: dict[str, Any] | None, version: str) -> list[str]:
    field = "multislice_params" if version == "v2" else "multi_node_params"
    if many is None:
        if not node:
            raise errors.bad_request(f"one of node_id and {field} must be set.")
        return [node]
    if node is not None:
        if version == "v2":
            where = f"{_WHERE}.tpu.node_spec[0]"
            raise errors.one_of(where, "name_strategy", "multisliceParams")
        raise errors.bad_request(f"node_id and {field} cannot both be specified.")
    count = many.get("nodeCount", 0)
    if count < 2:
        raise errors.bad_request(f"{field}.node_count must be greater than 1.")
    prefix = many.get("nodeIdPrefix") or queued
    return [f"{prefix}-{index}" for index in range(count)]


def _times(policy: dict[str, Any], now: float) -> tuple[float | None, float | None]:
    where = f"{_WHERE}.queueing_policy"
    given = [name for name in _TIMES if name in policy]
    if len(given) > 1:
        raise errors.one_of(where, "start_timing_constraints", given[1])
    before: float | None = None
    after: float | None = None
    if "validUntilDuration" in policy:
        after = now + _duration(policy, "validUntilDuration", where)
    elif "validUntilTime" in policy:
        after = _moment(policy, "validUntilTime", where)
    elif "validAfterDuration" in policy:
        before = now + _duration(policy, "validAfterDuration", where)
    elif "validAfterTime" in policy:
        before = _moment(policy, "validAfterTime", where)
    elif "validInterval" in policy:
        interval, inside = policy["validInterval"], f"{where}.valid_interval"
        before = _moment(interval, "startTime", inside) if "startTime" in interval else None
        after = _moment(interval, "endTime", inside) if "endTime" in interval else None
    if before is not None and after is not None and before > after:
        raise errors.bad_request("valid_interval must not end before it starts.")
    if after is not None and after <= now:
        raise errors.bad_request("the time until which the request is valid has passed.")
    return before, after


def _read_run(record: QueueRecord, now: float) -> None:
    run, where = record.body.get("runDuration", {}), f"{_WHERE}.run_duration"
    if "maxRunDuration" in run:
        record.run_seconds = _duration(run, "maxRunDuration", where)
        if record.run_seconds <= 0:
            raise errors.bad_request("max_run_duration must be positive.")
        if record.tier == "flex_start" and record.run_seconds > LONGEST_RUN:
            raise errors.bad_request("max_run_duration must not be longer than 7 days.")
    if "terminationTime" in run:
        record.ends = _moment(run, "terminationTime", where)
        if record.ends <= now:
            raise errors.bad_request("termination_time has passed.")


def _duration(message: dict[str, Any], name: str, where: str) -> float:
    text = message[name]
    if not re.fullmatch(r"-?\d+(\.\d{1,9})?s", text):
        raise errors.invalid_value(f"{where}.{snake(name)}", _DURATION, text)
    seconds = float(text[:-1])
    if seconds < 0:
        raise errors.bad_request(f"{snake(name)} must not be negative.")
    return seconds


def _moment(message: dict[str, Any], name: str, where: str) -> float:
    text = message[name]
    try:
        if datetime.fromisoformat(text).tzinfo is not None:
            return seconds_of(text)
    except ValueError:
        pass
    raise errors.invalid_value(f"{where}.{snake(name)}", _TIMESTAMP, text)
