"""Methods for managed groups of instances in bulk mode, each of which is one slice."""

from __future__ import annotations

from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._compute.machine_types import (
    machine_type,
    topologies,
)

from ..compute_errors import bad, invalid, not_found
from ..google.answers import Call
from ..google.operations import link
from ..model.cloud import Cloud
from ..model.records import NodeRecord
from . import (
    catalog,
    group_shown,
    instance_request,
    links,
    lists,
    operations,
    policies,
    templates,
)
from .instance_request import Asked
from .methods import method

COLLECTION = "instanceGroupManagers"
# What a client may say of a group and gets back as it is.
_KEPT = (
    "description",
    "instanceLifecyclePolicy",
    "namedPorts",
    "resourcePolicies",
    "targetSizePolicy",
    "updatePolicy",
)


def _in_zone(properties: dict[str, Any], zone: str) -> dict[str, Any]:
    """Return what a template asks for, with the zone of the disks, which it names without one."""
    disks = [
        {**disk, "source": f"zones/{zone}/disks/{source}"}
        if (source := str(disk.get("source") or "")) and "/" not in source
        else disk
        for disk in properties.get("disks") or []
    ]
    return {**properties, "disks": disks}


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a group, and begin to create its instances."""
    zone, wanted = catalog.zone_of(cloud, call), call.json()
    name = instance_request.check_name(wanted.get("name"))
    template, properties = _template(cloud, zone, wanted)
    link_of, topology = _policy(cloud, zone, wanted, properties)
    asked = instance_request.read(cloud, zone, _in_zone(properties, zone), topology)
    size = int(wanted.get("targetSize") or 0)
    _check_mode(wanted, asked, link_of)
    if size:
        _check_size(asked, size, "resource.targetSize", link_of)
    _check_bulk(cloud, zone, name, asked)
    base = str(wanted.get("baseInstanceName") or name)
    asked.compute["group"] = {
        "base": instance_request.check_name(base, "baseInstanceName"),
        "size": size,
        "template": template,
        "template_link": link(cloud, template.partition(f"projects/{cloud.project}/")[2]),
        "policy": link_of,
        "repairs": _on_failure(wanted) != "DO_NOTHING",
        "body": {key: wanted[key] for key in _KEPT if key in wanted},
    }
    operation = cloud.compute.insert_group(zone, name, asked.body, asked.compute, size)
    return operations.show(cloud, operation)


def _template(cloud: Cloud, zone: str, wanted: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the full name of the template, and what it says of instances."""
    url = str(wanted.get("instanceTemplate") or "")
    to = links.read(url)
    if to is None or to.collection != templates.COLLECTION:
        raise links.malformed("instanceTemplate", url)
    path = f"projects/{cloud.project}/{to.scope}/{templates.COLLECTION}/{to.name}"
    found = templates.TEMPLATES.find(cloud, url)
    if found is None:
        raise not_found(path)
    if to.scope not in ("global", f"regions/{zone.rpartition('-')[0]}"):
        why = "The template is of another region."
        raise invalid("instanceTemplate", url, why)
    return path, found["properties"]


def _policy(
    cloud: Cloud, zone: str, wanted: dict[str, Any], properties: dict[str, Any]
) -> tuple[str, str]:
    """Return the full name of the workload policy and its topology; empty for none."""
    machine = str(properties.get("machineType", ""))
    if properties.get("resourcePolicies"):
        raise bad(
            f"Creation of a managed instance group with {machine} machine type with placement "
            "policy is not supported. Use workload policy instead."
        )
    url = str((wanted.get("resourcePolicies") or {}).get("workloadPolicy") or "")
    if not url:
        return "", ""
    to = links.read(url)
    if to is None or to.collection != policies.COLLECTION:
        raise links.malformed("resourcePolicies.workloadPolicy", url)
    found = policies.POLICIES.find(cloud, url)
    path = f"projects/{cloud.project}/{to.scope}/{policies.COLLECTION}/{to.name}"
    if found is None or to.scope != f"regions/{zone.rpartition('-')[0]}":
        raise not_found(path)
    topology = str((found.get("workloadPolicy") or {}).get("acceleratorTopology") or "")
    known = topologies(machine)
    if topology and machine_type(machine) and topology not in known:
        why = f"Machine type {machine} does not form the topology {topology}."
        raise invalid("resourcePolicies.workloadPolicy", url, why)
    return path, topology


def _check_mode(wanted: dict[str, Any], asked: Asked, policy: str) -> None:
    """Raise for what groups of TPUs cannot be."""
    bulk = (wanted.get("targetSizePolicy") or {}).get("mode") == "BULK"
    if policy and not bulk:
        raise bad("MIGs with TPU accelerator topology require BULK mode in target size policy")
    model = asked.compute["properties"]["scheduling"]["provisioningModel"]
    if model == "FLEX_START" and _on_failure(wanted) != "DO_NOTHING":
        why = "With the provisioning model FLEX_START it must be DO_NOTHING."
        field = "instanceLifecyclePolicy.defaultActionOnFailure"
        raise invalid(field, _on_failure(wanted), why)


def _check_bulk(cloud: Cloud, zone: str, name: str, asked: Asked) -> None:
    """Refuse what one of Google's pages says that groups in bulk mode cannot be, by a fault."""
    model = asked.compute["properties"]["scheduling"]["provisioningModel"]
    if model in ("FLEX_START", "RESERVATION_BOUND"):
        return
    where = {"zone": zone, "node": name, "accelerator_type": asked.body["acceleratorType"]}
    if cloud.faults.hit("bulk_refused", cloud.clock.now(), service="compute", **where):
        why = "Bulk mode requires the provisioning model FLEX_START or RESERVATION_BOUND."
        raise invalid("targetSizePolicy.mode", "BULK", why)


def _on_failure(wanted: dict[str, Any]) -> str:
    policy = wanted.get("instanceLifecyclePolicy") or {}
    return str(policy.get("defaultActionOnFailure") or "REPAIR")


def _check_size(asked: Asked, size: int, field: str, policy: str) -> None:
    gang = topologies(asked.compute["machineType"])[asked.compute["topology"]]
    _check_gang(gang, size, field, policy)


def _check_gang(gang: int, size: int, field: str, policy: str) -> None:
    if size == gang:
        return
    if not policy:
        raise bad(
            f"Invalid value for field '{field}': '{size}'. A managed instance group with TPU needs "
            "a workload policy with an accelerator topology for more than one instance."
        )
    raise bad(
        f"Invalid value for field '{field}': '{size}'. Requested invalid target size '{size}' for "
        f"a Managed Instance Group in the gang mode of size '{gang}'. Should be equal to the gang "
        "size."
    )


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one group."""
    node = _group(cloud, call)
    hidden = cloud.faults.hit("not_found_after_create", cloud.clock.now(), **cloud.place(node))
    if hidden or cloud.clock.now() < node.visible_from:
        raise not_found(node.resource(cloud.project))
    return group_shown.show(cloud, node)


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the groups of a zone."""
    zone = catalog.zone_of(cloud, call)
    found = [group_shown.show(cloud, node) for node in cloud.compute.groups(zone)]
    return lists.of_zone(cloud, call, "compute#instanceGroupManagerList", COLLECTION, found)


def aggregated(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the groups of all zones, by zone."""
    found = [
        (f"zones/{node.zone}", group_shown.show(cloud, node)) for node in cloud.compute.groups()
    ]
    kind = "compute#instanceGroupManagerAggregatedList"
    return lists.aggregated(cloud, call, kind, COLLECTION, catalog.all_zones(), found)


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to delete a group with its instances."""
    return operations.show(cloud, cloud.compute.delete_group(_group(cloud, call)))


def resize(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to create all instances of an empty group, or to remove all."""
    node, text = _group(cloud, call), call.query.get("size", "")
    if not text.isdigit():
        raise bad(f"Invalid value for field 'size': '{text}'. Must be a number.")
    compute, size = node.compute, int(text)
    if size:
        gang = topologies(compute["machineType"])[compute["topology"]]
        _check_gang(gang, size, "size", compute["group"]["policy"])
    return operations.show(cloud, cloud.compute.resize(node, size))


def list_managed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the instances of a group, also those that do not exist yet; there are no pages."""
    node = _group(cloud, call)
    workers = range(len(node.machines))
    found = [group_shown.managed(cloud, node, worker) for worker in workers]
    shown = lists.kept(call, found) if call.query.get("filter") else found
    return {"managedInstances": shown} if shown else {}


def list_errors(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the errors of a group's instances, the newest first."""
    found = group_shown.errors(cloud, _group(cloud, call))
    return {"items": found} if found else {}


def recreate(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Begin to make some instances again, with new boot disks."""
    node, wanted = _group(cloud, call), call.json()
    names = [str(url).rpartition("/")[2] for url in wanted.get("instances") or []]
    known = {machine["name"]: worker for worker, machine in enumerate(node.machines)}
    for name in names:
        if name not in known:
            why = f"The instance {name} is not a member of {node.name}."
            raise invalid("instances", name, why)
    return operations.show(cloud, cloud.compute.remake(node, [known[name] for name in names]))


def no_resize_requests(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Refuse resize requests."""
    _group(cloud, call)
    raise bad("Creating resize requests for managed instance group with TPU is not allowed")


def resize_requests(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List no resize requests, because there can be none."""
    place = f"zones/{call['zone']}/{COLLECTION}/{_group(cloud, call).name}/resizeRequests"
    kind = "compute#instanceGroupManagerResizeRequestList"
    return lists.page(cloud, call, kind, place, [])


def instance_groups(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the groups as what they manage, in which gcloud looks for their sizes."""
    zone = catalog.zone_of(cloud, call)
    found = [group_shown.managed_group(cloud, node) for node in cloud.compute.groups(zone)]
    return lists.of_zone(cloud, call, "compute#instanceGroupList", "instanceGroups", found)


def no_autoscalers(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List no autoscalers, which groups with TPUs cannot have."""
    catalog.zone_of(cloud, call)
    return lists.of_zone(cloud, call, "compute#autoscalerList", "autoscalers", [])


def _group(cloud: Cloud, call: Call) -> NodeRecord:
    return cloud.compute.group(catalog.zone_of(cloud, call), call["id"])


_ZONE = f"/zones/{{zone}}/{COLLECTION}"
_ONE = _ZONE + "/{id}"
METHODS = [
    method("GET", f"/aggregated/{COLLECTION}", f"{COLLECTION}.aggregatedList", aggregated),
    method("GET", _ZONE, f"{COLLECTION}.list", listed),
    method("POST", _ZONE, f"{COLLECTION}.insert", insert),
    method("GET", _ONE, f"{COLLECTION}.get", get),
    method("DELETE", _ONE, f"{COLLECTION}.delete", delete),
    method("GET", "/zones/{zone}/instanceGroups", "instanceGroups.list", instance_groups),
    method("GET", "/zones/{zone}/autoscalers", "autoscalers.list", no_autoscalers),
    method("POST", _ONE + "/resize", f"{COLLECTION}.resize", resize),
    method("POST", _ONE + "/listManagedInstances", f"{COLLECTION}.listManagedInstances",
           list_managed),
    method("GET", _ONE + "/listErrors", f"{COLLECTION}.listErrors", list_errors),
    method("POST", _ONE + "/recreateInstances", f"{COLLECTION}.recreateInstances", recreate),
    method("POST", _ONE + "/resizeRequests", "instanceGroupManagerResizeRequests.insert",
           no_resize_requests),
    method("GET", _ONE + "/resizeRequests", "instanceGroupManagerResizeRequests.list",
           resize_requests),
]  # fmt: skip
