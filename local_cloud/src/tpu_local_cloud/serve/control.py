"""The owner's control of the cloud, under /_cloud/: clock, faults, maintenance, preemption."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .. import errors, payload
from ..compute_api import instance_request
from ..errors import ApiError
from ..github import control as github
from ..machines import MachineError
from ..model.cloud import Cloud
from ..model.compute import records as compute_records
from ..model.shared import schema
from ..model.shared.clock import timestamp
from ..model.shared.faults import KINDS, OPTIONS, PLACES, Fault
from ..model.shared.records import NodeRecord
from . import control_queue

_TAKEN = {"preempt": "PREEMPTED", "terminate": "TERMINATED"}
_NODE = re.compile(r"nodes/(?P<project>[^/]+)/(?P<zone>[^/]+)/(?P<name>[^/:]+):(?P<verb>[a-z-]+)")


def answer(cloud: Cloud, method: str, path: str, body: bytes) -> dict[str, Any]:
    """Return the JSON answer to a request for `path` below /_cloud/, or raise ApiError."""
    asked: dict[str, Any] = payload.read(body) if body.strip() else {}
    try:
        return _answer(cloud, method, path.strip("/"), asked)
    except ValueError as error:
        # It is written for the person who called the command.
        raise ApiError("INVALID_ARGUMENT", str(error)) from error
    except (KeyError, TypeError) as error:
        raise ApiError("INVALID_ARGUMENT", f"{type(error).__name__}: {error}") from error


def _answer(cloud: Cloud, method: str, path: str, asked: dict[str, Any]) -> dict[str, Any]:
    if path == "state" and method == "GET":
        return state(cloud)
    if path == "reset" and method == "POST":
        cloud.reset()
        return {}
    if path == "clock":
        return _clock(cloud, method, asked)
    if path.partition("/")[0] == "history" and method == "GET":
        return _history(cloud, int(path.partition("/")[2] or 0))
    if path == "requests" and method in ("GET", "DELETE"):
        return _requests(cloud, method)
    if path == "delays" and method in ("GET", "POST"):
        cloud.set_delays(asked)
        return cloud.delays
    if path == "auth" and method == "POST":
        cloud.require_auth = bool(asked["required"])
        return {"required": cloud.require_auth}
    if path == "faults" or path.startswith("faults/"):
        return _faults(cloud, method, path.partition("/")[2], asked)
    if path == "latency" and method in ("GET", "POST"):
        return _latency(cloud, asked)
    if path == "github" and method in ("GET", "POST"):
        return github.answer(cloud, method, asked)
    if path == "populate" and method == "POST":
        return _populate(cloud, asked)
    if path.startswith(("queuedResources", "reservations")):
        return control_queue.answer(cloud, method, path, asked)
    match = _NODE.fullmatch(path)
    if match and method == "POST":
        return _node(cloud, match["zone"], match["name"], match["verb"], asked)
    raise errors.NoSuchMethod(f"/_cloud/{path}")


def state(cloud: Cloud) -> dict[str, Any]:
    """Return the whole state, for people and tests."""
    return {
        "project": cloud.project,
        "hosts": cloud.backend.name,
        "clock": _time(cloud),
        "faults": cloud.faults.list(),
        "pending": [
            {"kind": t.kind, "node": t.node, "due": t.due} for t in list(cloud.tasks.values())
        ],
        "nodes": [
            *(_shown(cloud, node) for node in cloud.nodes_in("-")),
            *(_shown_of_compute(cloud, node) for node in cloud.compute.records()),
        ],
        **control_queue.shown(cloud),
    }


def _shown(cloud: Cloud, node: NodeRecord) -> dict[str, Any]:
    return {
        "node": node.name,
        "zone": node.zone,
        "accelerator_type": node.body["acceleratorType"],
        "state": node.state,
        "health": node.health,
        "uid": node.uid,
        "workers": [
            {
                "worker": index,
                "machine": machine["machine_id"],
                "power": cloud.backend.status(machine["machine_id"]),
                "internal_ip": machine["internal_ip"],
                "external_ip": machine["external_ip"],
            }
            for index, machine in enumerate(node.machines)
        ],
    }


def _shown_of_compute(cloud: Cloud, node: NodeRecord) -> dict[str, Any]:
    shown = _shown(cloud, node)
    for worker in shown["workers"]:
        index = worker["worker"]
        worker["instance"] = node.machines[index]["name"]
        worker["status"] = compute_records.status(node, index)
    return {**shown, "api": "compute", "collection": node.collection}


def _clock(cloud: Cloud, method: str, asked: dict[str, Any]) -> dict[str, Any]:
    if method == "POST":
        for key in asked:
            if key not in ("mode", "speed", "advance"):
                raise ValueError(f"a clock has no {key!r}; it has mode, speed, advance")
        speed = asked.get("speed")
        cloud.clock.set(asked.get("mode"), None if speed is None else float(speed))
        cloud.clock.advance(float(asked.get("advance", 0)))
        cloud.advance()
    return _time(cloud)


def _history(cloud: Cloud, number: int) -> dict[str, Any]:
    """Return the events from a number on, and the number of the next one."""
    events = cloud.history.since(number)
    dropped = cloud.history.dropped
    return {
        "events": [event.to_dict() for event in events],
        "next": dropped + len(cloud.history),
        "dropped": dropped,
    }


def _requests(cloud: Cloud, method: str) -> dict[str, Any]:
    """Return how often each method was called, and reset the counts on request."""
    counts = dict(sorted(cloud.requests.items()))
    if method == "DELETE":
        cloud.requests.clear()
    return counts


def _latency(cloud: Cloud, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the round trip to small machines; change it first if requested."""
    wanted = asked.get("round_trip_ms")
    if wanted is not None and not 0 <= float(wanted) <= 10_000:
        raise ValueError(f"a round trip of {wanted} ms is not between 0 and 10000")
    try:
        known = cloud.backend.round_trip(None if wanted is None else float(wanted))
    except MachineError as error:
        raise ApiError("FAILED_PRECONDITION", str(error)) from error
    return {"round_trip_ms": known}


def _time(cloud: Cloud) -> dict[str, Any]:
    clock, now = cloud.clock, cloud.clock.now()
    return {"mode": clock.mode, "speed": clock.speed, "now": now, "time": timestamp(now)}


def _faults(cloud: Cloud, method: str, fault_id: str, asked: dict[str, Any]) -> dict[str, Any]:
    if method == "POST":
        cloud.faults.add(_fault(cloud.clock.now(), asked))
    elif method == "DELETE":
        cloud.faults.clear(fault_id or None)
        # Waiting requests may now get capacity.
        cloud.queue.look()
        cloud.compute.look()
        cloud.advance()
    return {"faults": cloud.faults.list(), "kinds": KINDS}


def _fault(now: float, asked: dict[str, Any]) -> Fault:
    """Return the requested fault; its options are among the other fields, or separate."""
    known = ("kind", "match", "count", "probability", "seed")
    given = {key: asked[key] for key in known if asked.get(key) is not None}
    rest = {key: value for key, value in asked.items() if key not in (*known, "options")}
    own = OPTIONS.get(str(asked.get("kind")), ())
    given["since"], lasts = now, rest.pop("lasts", None)
    # Some kinds have their own option `seconds`.
    if "seconds" in rest and "seconds" not in own:
        lasts = rest.pop("seconds")
    if isinstance(rest.get("after"), bool):
        raise ValueError("after has the seconds until a fault begins; when: after is what you want")
    given["since"] += float(rest.pop("after", 0))
    if lasts is not None:
        given["until"] = given["since"] + float(lasts)
    for key in given.get("match", {}):
        if key not in PLACES:
            raise ValueError(f"no fault is matched by {key!r}; there are: {', '.join(PLACES)}")
    given["count"] = int(given["count"]) if "count" in given else None
    return Fault(**given, options={**rest, **asked.get("options", {})})


def _populate(cloud: Cloud, asked: dict[str, Any]) -> dict[str, Any]:
    """Add `count` nodes called `<prefix>-<i>`; the rest of the request is the body of each."""
    zone = asked.pop("zone")
    prefix = asked.pop("prefix", "node")
    count = int(asked.pop("count", 1))
    if asked.pop("api", "tpu") == "compute":
        asked.setdefault("networkInterfaces", [{"network": "global/networks/default"}])
        for index in range(count):
            one = instance_request.read(cloud, zone, dict(asked))
            cloud.compute.add(zone, f"{prefix}-{index}", one.body, one.compute)
        return {"added": count}
    # External addresses, as gcloud requests by default.
    asked.setdefault("networkConfig", {"network": "default", "enableExternalIps": True})
    body = schema.parse(asked, "Node", "node")
    cloud.populate([(zone, f"{prefix}-{index}", dict(body)) for index in range(count)])
    return {"added": count}


def _node(cloud: Cloud, zone: str, name: str, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
    if verb in ("preempt", "terminate"):
        cloud.preempt(zone, name, _TAKEN[verb], float(asked.get("notice", 0)))
        return {}
    if verb == "lose":
        cloud.lose(zone, name)
        return {}
    if verb == "unhealthy":
        said = str(asked.get("description", ""))
        health = str(asked.get("health", "UNHEALTHY_MAINTENANCE"))
        cloud.set_fields(zone, name, {"health": health, "health_description": said})
        return {}
    if verb == "schedule-maintenance":
        return _schedule_maintenance(cloud, zone, name, asked)
    if verb == "maintain":
        workers = [int(worker) for worker in asked.get("worker_ids", [0])]
        address = asked.get("new_external_ip", True)
        record, all_workers = cloud.machines_at(zone, name)
        if record.api == "compute":
            address = asked.get("new_external_ip", False)
            address = address if isinstance(address, str) else False
            workers = list(range(len(record.machines))) or all_workers
        operation = cloud.maintain_machines(record, workers, "v2alpha1", address)
        return operation.render(cloud.project)
    if verb == "reboot":
        cloud.reboot(zone, name, int(asked.get("worker", 0)))
        return {}
    if verb == "set":
        cloud.set_fields(zone, name, asked)
        return {}
    verbs = "lose, maintain, preempt, reboot, schedule-maintenance, set, terminate, unhealthy"
    raise ValueError(f"no verb is called {verb!r}; there are: {verbs}")


def _schedule_maintenance(
    cloud: Cloud, zone: str, name: str, asked: dict[str, Any]
) -> dict[str, Any]:
    """Announce a maintenance: `in` so many seconds, for a `window` of so many, and so on."""
    kinds: dict[str, Callable[[Any], Any]] = {
        "window": float, "latest": float, "type": str, "can_reschedule": bool
    }  # fmt: skip
    for key in asked:
        if key not in ("in", *kinds):
            raise ValueError(f"a maintenance has no {key!r}; it has in, {', '.join(kinds)}")
    given = {key: make(asked[key]) for key, make in kinds.items() if key in asked}
    names = {"window": "length", "type": "kind"}
    more = {names.get(key, key): value for key, value in given.items()}
    cloud.announce_maintenance(zone, name, float(asked["in"]), **more)
    cloud.advance()
    return {"upcomingMaintenance": cloud.machines_at(zone, name)[0].maintenance}
