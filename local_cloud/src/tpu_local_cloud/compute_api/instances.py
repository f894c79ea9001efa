"""Methods for instances: each function answers one method."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from ..compute_errors import bad, invalid, not_found, not_ready, stale
from ..google.answers import Call, fingerprint
from ..google.operations import link
from ..model.cloud import Cloud
from ..model.compute.records import ACCESS, access, publishes, scheduling, status, tags
from ..model.shared.records import NodeRecord
from ..tpu_api.nodes import attributes_of
from . import catalog, disks, instance_request, links, lists, operations, templates, values
from .instance_shown import disks_of, show, shown_tags
from .methods import methods

Found = tuple[NodeRecord, int]
# How many instances one request can create.
MOST = 1000
_PATTERN = re.compile(r"([^#]*)(#+)([^#]*)")


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to create an instance."""
    zone, wanted = catalog.zone_of(cloud, call), call.json()
    name = instance_request.check_name(wanted.get("name"))
    if not links.read(str(wanted.get("machineType") or "")):
        raise links.malformed("machineType", str(wanted.get("machineType") or ""))
    asked = instance_request.read(cloud, zone, wanted)
    waits = instance_request.wait_of(wanted)
    _refuse_disk(cloud, zone, name, asked)
    operation = cloud.compute.insert(zone, name, asked.body, asked.compute, waits)
    return operations.show(cloud, operation)


def _refuse_disk(cloud: Cloud, zone: str, name: str, asked: instance_request.Asked) -> None:
    """Raise if the boot disk of a new instance cannot be made, because its name is taken."""
    for disk in asked.compute["properties"].get("disks") or []:
        if disk.get("boot") and not disk.get("source") and not cloud.compute.find(zone, name):
            named = (disk.get("initializeParams") or {}).get("diskName")
            disks.refuse_if_exists(cloud, zone, str(named or name))


def bulk_insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to create several instances that are alike."""
    zone, wanted = catalog.zone_of(cloud, call), call.json()
    names = _names(cloud, zone, wanted)
    properties = dict(wanted.get("instanceProperties") or {})
    url = str(wanted.get("sourceInstanceTemplate") or "")
    if url:
        template = templates.TEMPLATES.find(cloud, url)
        if template is None:
            why = "The referenced instance template cannot be found."
            raise invalid("sourceInstanceTemplate", url, why)
        properties = {**template["properties"], **properties}
    least = min(int(wanted.get("minCount") or len(names)), len(names))
    several = {}
    for name in names:
        asked = instance_request.read(cloud, zone, properties)
        several[name] = asked.body, asked.compute
    return operations.show(cloud, cloud.compute.insert_several(zone, several, least))


def _names(cloud: Cloud, zone: str, wanted: dict[str, Any]) -> list[str]:
    """Return the names of several instances: those that are given, or the next by a pattern."""
    given = [
        instance_request.check_name(each.get("name") or key, "perInstanceProperties")
        for key, each in (wanted.get("perInstanceProperties") or {}).items()
    ]
    count, pattern = int(wanted.get("count") or len(given)), str(wanted.get("namePattern") or "")
    if not 1 <= count <= MOST:
        raise invalid("count", count, f"It must be from 1 to {MOST}.")
    if given:
        if len(given) != count or pattern:
            why = "With names there must be as many of them, and no pattern."
            raise invalid("perInstanceProperties", ", ".join(given), why)
        return given
    found = _PATTERN.fullmatch(pattern)
    if found is None:
        why = "It must have one run of '#', each of which stands for a digit."
        raise invalid("namePattern", pattern, why)
    before, hashes, after = found.groups()
    every = (f"{before}{n:0{len(hashes)}}{after}" for n in range(1, 10 ** len(hashes)))
    names = list(islice((n for n in every if not cloud.compute.find(zone, n)), count))
    if len(names) < count:
        raise invalid("namePattern", pattern, f"It has no room for {count} more names.")
    return [instance_request.check_name(name, "namePattern") for name in names]


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one instance."""
    node, worker = _instance(cloud, call)
    hidden = cloud.faults.hit("not_found_after_create", cloud.clock.now(), **cloud.place(node))
    if hidden or cloud.clock.now() < node.visible_from:
        raise not_found(f"projects/{cloud.project}/zones/{node.zone}/instances/{call['id']}")
    return show(cloud, node, worker)


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the instances of a zone."""
    found = [show(cloud, *at) for at in cloud.compute.instances(catalog.zone_of(cloud, call))]
    return lists.of_zone(cloud, call, "instances", found)


def aggregated(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the instances of all zones, by zone."""
    found = [(f"zones/{at[0].zone}", show(cloud, *at)) for at in cloud.compute.instances()]
    return lists.aggregated(cloud, call, "instances", found)


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to delete an instance."""
    node, worker = _instance(cloud, call)
    if node.compute["properties"].get("deletionProtection"):
        name = f"projects/{cloud.project}/zones/{node.zone}/instances/{call['id']}"
        raise bad(
            f"Invalid resource usage: 'Resource cannot be deleted if it's protected against "
            f"deletion.'. {name}",
            "resourceInUse",
        )
    return operations.show(cloud, cloud.compute.delete(node, worker))


def stop(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to stop an instance."""
    return operations.show(cloud, cloud.compute.stop(*_instance(cloud, call)))


def start(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to start an instance."""
    return operations.show(cloud, cloud.compute.start(*_instance(cloud, call)))


def reset(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to reboot an instance."""
    return operations.show(cloud, cloud.compute.reset(*_instance(cloud, call)))


def suspend(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Refuse to suspend an instance, because none with TPUs can be."""
    _instance(cloud, call)
    text = "Operation type [suspend] failed: Instances with guest accelerators cannot be suspended."
    raise bad(text, "unsupportedOperation")


def attach_disk(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to attach an existing disk to an instance."""
    (node, worker), wanted = _instance(cloud, call), call.json()
    index = 1 + len(disks_of(node, worker))
    disk = instance_request.data_disk(cloud, wanted, index)
    names = [each["deviceName"] for each in disks_of(node, worker)]
    if disk["deviceName"] in names:
        why = "The device name is in use on this instance."
        raise invalid("deviceName", disk["deviceName"], why)
    return operations.show(cloud, cloud.compute.attach_disk(node, worker, disk))


def detach_disk(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to detach a disk from an instance."""
    node, worker = _instance(cloud, call)
    name = call.query.get("deviceName", "")
    gone = [each for each in disks_of(node, worker) if each["deviceName"] == name]
    if not gone:
        full = f"projects/{cloud.project}/zones/{node.zone}/instances/{call['id']}"
        text = f"No attached disk found with device name '{name}' on {full}"
        raise bad(f"Invalid value for field 'disk': '{name}'. {text}")
    return operations.show(cloud, cloud.compute.detach_disk(node, worker, gone[0]["sourceDisk"]))


def set_labels(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace the labels, if the fingerprint matches the current ones."""
    (node, worker), wanted = _instance(cloud, call), call.json()
    if wanted.get("labelFingerprint") != fingerprint(node.machines[worker]["labels"]):
        raise stale("Labels")
    labels = values.check_labels(wanted.get("labels") or {}, "labels")
    return operations.show(cloud, cloud.compute.set_labels(node, worker, labels))


def set_metadata(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace all metadata, if the fingerprint matches the current one."""
    (node, worker), wanted = _instance(cloud, call), call.json()
    if wanted.get("fingerprint") != fingerprint(node.machines[worker]["metadata"]):
        raise stale("metadata")
    items = values.read_metadata(wanted, "metadata")
    return operations.show(
        cloud, cloud.compute.set_own(node, worker, "setMetadata", metadata=items)
    )


def set_scheduling(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Change what a request names of how a stopped instance is scheduled."""
    (node, worker), wanted = _instance(cloud, call), call.json()
    if node.is_group:
        why = f"{call['id']} is scheduled as its group's template says."
        raise bad(f"Invalid value for field 'scheduling'. {why}")
    found = instance_request.check_scheduling({**scheduling(node), **wanted})
    as_node = instance_request.as_node(found)
    return operations.show(cloud, cloud.compute.set_scheduling(node, worker, found, as_node))


def set_tags(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace the network tags, if the fingerprint matches the current ones."""
    (node, worker), wanted = _instance(cloud, call), call.json()
    if wanted.get("fingerprint") != shown_tags(tags(node, worker))["fingerprint"]:
        raise stale("tags")
    items = values.check_tags(wanted.get("items") or [], "tags")
    return operations.show(cloud, cloud.compute.set_own(node, worker, "setTags", tags=items))


def add_access(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to give an instance an external address."""
    (node, worker), wanted = _card(cloud, call), call.json()
    if access(node, worker):
        why = "At most one access config currently supported."
        raise invalid("networkInterfaces[0].accessConfigs", access(node, worker), why)
    name = str(wanted.get("name") or ACCESS)
    return operations.show(cloud, cloud.compute.set_access(node, worker, name, "addAccessConfig"))


def delete_access(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to take the external address of an instance away."""
    (node, worker), name = _card(cloud, call), call.query.get("accessConfig", "")
    if not name or name != access(node, worker):
        raise invalid("accessConfig", name, "The network interface has no such access config.")
    return operations.show(cloud, cloud.compute.set_access(node, worker, "", "deleteAccessConfig"))


def _card(cloud: Cloud, call: Call) -> Found:
    """Return the instance whose only network interface is named."""
    name = call.query.get("networkInterface", "")
    if name != "nic0":
        raise invalid("networkInterface", name, "The instance has no such network interface.")
    return _instance(cloud, call)


def guest_attributes(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return what the instance published: a namespace, or one key of it."""
    node, worker = _instance(cloud, call)
    path = call.query.get("queryPath") or call.query.get("variableKey") or ""
    lost = ("guest_attributes_empty",)
    now, where = cloud.clock.now(), cloud.place(node)
    found = {}
    if publishes(node, worker, cloud.project_metadata) and not any(
        cloud.faults.hit(kind, now, **where) for kind in lost
    ):
        found = attributes_of(cloud, node, worker, path)
    if not found:
        text = f"The resource '{path}' of type 'Guest Attribute' was not found."
        refusal = not_found(path)
        refusal.message = text
        raise refusal
    here = f"zones/{node.zone}/instances/{call['id']}/guestAttributes/"
    shown = {"kind": "compute#guestAttributes", "selfLink": link(cloud, here)}
    if call.query.get("variableKey"):
        value = found["queryValue"]["items"][0]["value"]
        return {**shown, "variableKey": path, "variableValue": value}
    return {**shown, **found}


def serial_port(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return what the instance wrote to its first serial port; the others are silent."""
    node, worker = _instance(cloud, call)
    begin = call.query.get("start") or "0"
    if not begin.lstrip("-").isdigit():
        raise bad(f"Invalid value for field 'start': '{begin}'. Must be a number.")
    text = _console(node, worker) if call.query.get("port", "1") == "1" else ""
    first = min(max(0, int(begin) if int(begin) >= 0 else len(text) + int(begin)), len(text))
    return {
        "kind": "compute#serialPortOutput",
        "contents": text[first:],
        "start": str(first),
        "next": str(len(text)),
        "selfLink": link(cloud, f"zones/{node.zone}/instances/{call['id']}/serialPort"),
    }


def _console(node: NodeRecord, worker: int) -> str:
    if status(node, worker) in ("PENDING", "PROVISIONING"):
        return ""
    name = node.machines[worker]["machine_id"]
    lines = ["[    0.000000] Linux version 6.8.0-gcp", f"{name} systemd[1]: Reached target"]
    lines.append(f"{name} google_guest_agent: host keys are published")
    return "".join(f"{line}\n" for line in lines)


def simulate_maintenance(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin a maintenance of the instance, and of its whole slice."""
    return _maintain(cloud, call, "simulateMaintenanceEvent")


def perform_maintenance(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin the maintenance that was announced."""
    return _maintain(cloud, call, "performMaintenance")


def report_host(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to repair the host of an instance that is bound to a reservation."""
    (node, worker), wanted = _instance(cloud, call), call.json()
    when = wanted.get("disruptionSchedule", "")
    if when != "IMMEDIATE":
        raise invalid("disruptionSchedule", when, "It must be IMMEDIATE.")
    if not wanted.get("faultReasons"):
        raise invalid("faultReasons", "", "At least one reason must be given.")
    if status(node, worker) != "RUNNING":
        raise not_ready(f"projects/{cloud.project}/zones/{node.zone}/instances/{call['id']}")
    if scheduling(node).get("provisioningModel") != "RESERVATION_BOUND":
        return operations.show(cloud, cloud.compute.refuse_report(node, worker))
    return _maintain(cloud, call, "reportHostAsFaulty")


def _maintain(cloud: Cloud, call: Call, verb: str) -> dict[str, Any]:
    node, worker = _instance(cloud, call)
    workers = list(range(len(node.machines)))
    operation = cloud.maintain_machines(node, workers, "v1", False, verb)
    cloud.compute.aim(operation, node, worker)
    return operations.show(cloud, operation)


def _instance(cloud: Cloud, call: Call) -> Found:
    return cloud.compute.instance(catalog.zone_of(cloud, call), call["id"])


METHODS = methods(
    {
        "instances.aggregatedList": aggregated,
        "instances.list": listed,
        "instances.insert": insert,
        "instances.get": get,
        "instances.delete": delete,
        "instances.stop": stop,
        "instances.start": start,
        "instances.reset": reset,
        "instances.suspend": suspend,
        "instances.attachDisk": attach_disk,
        "instances.detachDisk": detach_disk,
        "instances.setLabels": set_labels,
        "instances.setMetadata": set_metadata,
        "instances.setScheduling": set_scheduling,
        "instances.setTags": set_tags,
        "instances.addAccessConfig": add_access,
        "instances.deleteAccessConfig": delete_access,
        "instances.getGuestAttributes": guest_attributes,
        "instances.getSerialPortOutput": serial_port,
        "instances.simulateMaintenanceEvent": simulate_maintenance,
        "instances.performMaintenance": perform_maintenance,
        "instances.reportHostAsFaulty": report_host,
        "instances.bulkInsert": bulk_insert,
    }
)
