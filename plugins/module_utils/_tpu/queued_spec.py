# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request that creates a queued resource. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._core.errors import BadRequest
from .._schema.durations import remedy_for, seconds_in
from .model import parse_time
from .versions import RENAMED, V2ALPHA1, api_version_of

__all__ = [
    "QUEUED_TIERS",
    "api_version_of",
    "duration_of",
    "parse_duration",
    "queued_body",
    "seconds_of",
]

QUEUED_TIERS = ("on_demand", "spot", "guaranteed", "reserved", "best_effort", "flex_start")
ANY_RESERVATION = "-"

# The times; of two together only two points in time make an interval.
_POLICY = {
    "valid_until_time": "validUntilTime",
    "valid_until_duration": "validUntilDuration",
    "valid_after_time": "validAfterTime",
    "valid_after_duration": "validAfterDuration",
}


def queued_body(
    project: str,
    zone: str,
    nodes: Mapping[str, Mapping[str, Any]],
    *,
    tier: str = "on_demand",
    node_count: int | None = None,
    node_prefix: str | None = None,
    valid_until_time: str | None = None,
    valid_until_duration: str | float | None = None,
    valid_after_time: str | None = None,
    valid_after_duration: str | float | None = None,
    valid_interval: Mapping[str, str] | None = None,
    min_duration: str | float | None = None,
    reservation: str | None = None,
    max_run_duration: str | float | None = None,
) -> dict[str, Any]:
    """Return the request for nodes by their ids, or for a multislice of the one node given.

    A multislice has `node_count`; its nodes are named after `node_prefix`, or else after the queued
    resource, and the key of `nodes` is not used.
    """
    body: dict[str, Any] = {
        "tpu": {"nodeSpec": _node_specs(project, zone, nodes, tier, node_count, node_prefix)}
    }
    body.update(_tier_fields(project, zone, tier, min_duration, reservation))
    policy = _policy(
        {
            "valid_until_time": valid_until_time,
            "valid_until_duration": valid_until_duration,
            "valid_after_time": valid_after_time,
            "valid_after_duration": valid_after_duration,
        },
        valid_interval,
    )
    if policy:
        body["queueingPolicy"] = policy
    if max_run_duration is not None:
        text = duration_of("max_run_duration", max_run_duration)
        body["runDuration"] = {"maxRunDuration": text}
    if api_version_of(body) == V2ALPHA1:
        for spec in body["tpu"]["nodeSpec"]:
            for old, new in RENAMED.items():
                if old in spec:
                    spec[new] = spec.pop(old)
    return body


def parse_duration(text: str) -> int | None:
    """Return the seconds of a duration as users write it, above 0: 6h, 90m, 1h30m, 2d, 21600s."""
    return seconds_in(text) or None


def seconds_of(option: str, value: str | float) -> int:
    """Return the seconds of an option's duration; raise BadRequest if it is not a duration."""
    seconds = parse_duration(value) if isinstance(value, str) else round(value)
    if not seconds:
        raise BadRequest(
            f"{option} is {value!r}, which is not a duration.",
            remedy=f"{remedy_for(value)}.",
        )
    return seconds


def duration_of(option: str, value: str | float) -> str:
    """Return a duration as the API writes it."""
    return f"{seconds_of(option, value)}s"


def _node_specs(
    project: str,
    zone: str,
    nodes: Mapping[str, Mapping[str, Any]],
    tier: str,
    node_count: int | None,
    node_prefix: str | None,
) -> list[dict[str, Any]]:
    parent = f"projects/{project}/locations/{zone}"
    specs: list[dict[str, Any]] = [
        {"parent": parent, "nodeId": node_id, "node": _node_body(body, tier)}
        for node_id, body in nodes.items()
    ]
    if not specs:
        raise BadRequest("A queued resource needs at least one node.", remedy="Set nodes.")
    if node_count is None:
        if node_prefix:
            raise BadRequest(
                f"node_prefix is {node_prefix!r}, but node_count is not set.",
                remedy="Set node_count, too, or name the nodes instead.",
            )
        return specs
    if node_count < 2 or len(specs) > 1:
        raise BadRequest(
            f"node_count is {node_count}, for {len(specs)} different nodes.",
            remedy="A multislice has two or more equal nodes; name a single node instead.",
        )
    params: dict[str, Any] = {"nodeCount": node_count}
    if node_prefix:
        params["nodeIdPrefix"] = node_prefix
    specs[0].pop("nodeId")
    specs[0]["multisliceParams"] = params
    return specs


def _node_body(body: Mapping[str, Any], tier: str) -> dict[str, Any]:
    """Return a node's body with the scheduling that the queued resource's tier implies."""
    node = {key: value for key, value in body.items() if key != "schedulingConfig"}
    if tier == "spot":
        node["schedulingConfig"] = {"spot": True}
    return node


def _tier_fields(
    project: str, zone: str, tier: str, min_duration: str | float | None, reservation: str | None
) -> dict[str, Any]:
    if tier not in QUEUED_TIERS:
        raise BadRequest(
            f"tier is {tier!r}, which cannot be queued.",
            remedy=f"Use one of {', '.join(QUEUED_TIERS)}.",
        )
    if min_duration is not None and tier != "guaranteed":
        raise BadRequest(
            f"min_duration is {min_duration!r}, but the tier is {tier}.",
            remedy="Use the tier guaranteed, or remove min_duration.",
        )
    if reservation is not None and tier != "reserved":
        raise BadRequest(
            f"reservation is {reservation!r}, but the tier is {tier}.",
            remedy="Use the tier reserved, or remove reservation.",
        )
    if tier == "spot":
        return {"spot": {}}
    if tier == "best_effort":
        return {"bestEffort": {}}
    if tier == "flex_start":
        return {"provisioningModel": "FLEX_START"}
    if tier == "guaranteed":
        least = {} if min_duration is None else {"minDuration": _least(min_duration)}
        return {"guaranteed": least}
    if tier == "reserved":
        return {"reservationName": reservation_path(reservation, project, zone)}
    return {}


def _least(value: str | float) -> str:
    return duration_of("min_duration", value)


def reservation_path(reservation: str | None, project: str, zone: str) -> str:
    """Return the full name of a reservation; without one, the API chooses one that fits."""
    name = reservation or ANY_RESERVATION
    if "/" in name:
        return name
    return f"projects/{project}/locations/{zone}/reservations/{name}"


def _policy(
    given: Mapping[str, str | float | None], interval: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the queueing policy; the API accepts only one condition."""
    said = {name: value for name, value in given.items() if value is not None}
    if interval is not None:
        said["valid_interval"] = "{start_time} to {end_time}".format_map(interval)
    if said.keys() == {"valid_after_time", "valid_until_time"}:
        interval = {
            "start_time": str(said["valid_after_time"]),
            "end_time": str(said["valid_until_time"]),
        }
    elif len(said) > 1:
        listed = ", ".join(f"{name} is {value}" for name, value in said.items())
        raise BadRequest(
            f"A queued resource can have only one time condition, but these are set: {listed}.",
            remedy="For a start and an end use valid_interval, or valid_after_time with "
            "valid_until_time.",
        )
    if interval is not None:
        return {"validInterval": _interval(interval)}
    return {_POLICY[name]: _moment(name, value) for name, value in said.items()}


def _interval(interval: Mapping[str, str]) -> dict[str, str]:
    start = _moment("valid_interval.start_time", interval["start_time"])
    end = _moment("valid_interval.end_time", interval["end_time"])
    first, last = parse_time(start), parse_time(end)
    if first and last and first >= last:
        raise BadRequest(
            f"valid_interval ends at {end}, before it starts at {start}.",
            remedy="Correct the times.",
        )
    return {"startTime": start, "endTime": end}


def _moment(option: str, value: str | float) -> str:
    if option.endswith("_duration"):
        return duration_of(option, value)
    instant = parse_time(str(value))
    if instant is None:
        raise BadRequest(
            f"{option} is {value!r}, which is not a time.",
            remedy="Write it like 2026-12-31T23:59:59Z.",
        )
    return instant.isoformat().replace("+00:00", "Z")
