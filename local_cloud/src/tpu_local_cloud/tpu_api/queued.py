"""Methods for queued resources and reservations: each function answers one method."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..model.cloud import Cloud
from ..model.shared.records import OperationRecord
from ..model.tpu import reservations
from ..model.tpu.queue_steps import nodes_of
from .call import Call
from .discovery import is_true
from .lists import zoned_page


def list_queued(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the queued resources of a zone, or of all."""
    now = cloud.clock.now()
    found = [each for each in cloud.queue.within(call.zone) if each.visible_from <= now]
    return zoned_page(
        cloud, call, found, "queuedResources", lambda q: cloud.render_queued(q, call.version)
    )


def get_queued(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one queued resource."""
    record = cloud.queue.get(call.zone, call.id)
    now = cloud.clock.now()
    hidden = cloud.faults.hit("not_found_after_create", now, **record.place)
    if hidden or now < record.visible_from:
        raise errors.not_found(record.resource(cloud.project))
    return cloud.render_queued(record, call.version)


def create_queued(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin to queue."""
    body = call.parse("QueuedResource", "queued_resource")
    name, request_id = call.argument("queuedResourceId"), call.argument("requestId")
    return cloud.queue.create(call.zone, name, body, call.version, request_id)


def delete_queued(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin to delete a queued resource."""
    force = is_true(call.argument("force"))
    return cloud.queue.delete(call.zone, call.id, call.version, force, call.argument("requestId"))


def reset_queued(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin to recreate the nodes."""
    call.parse("Empty", "")
    return cloud.queue.reset(call.zone, call.id, call.version)


def perform_maintenance(cloud: Cloud, call: Call) -> OperationRecord:
    """Begin the maintenance of some nodes."""
    body = call.parse("PerformMaintenanceQueuedResourceRequest", "")
    # They are documented as names; clients also send full names.
    names = [name.rpartition("/")[2] for name in body.get("nodeNames", [])]
    return cloud.queue.maintain(call.zone, call.id, names, call.version)


def maintenance_info(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the announced maintenance of the nodes."""
    found = []
    for node in nodes_of(cloud, cloud.queue.get(call.zone, call.id)):
        upcoming = cloud.render(node, call.version).get("upcomingMaintenance")
        if upcoming:
            found.append(
                {"nodeName": node.name, "nodeUid": node.uid, "upcomingMaintenance": upcoming}
            )
    return {"nodeUpcomingMaintenances": found} if found else {}


def list_reservations(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the reservations of a zone, or of all."""
    cloud.advance()
    return zoned_page(
        cloud,
        call,
        reservations.within(cloud, call.zone),
        "reservations",
        lambda each: each.render(cloud.project, reservations.used(cloud, each)),
    )
