"""Instance templates, global and of a region: the properties of the VMs of a group."""

from __future__ import annotations

from typing import Any

from ..compute_errors import already_exists, invalid, not_found
from ..google import operations
from ..google.answers import Call
from ..google.disks import fingerprint
from ..model import catalog as places
from ..model.cloud import Cloud
from . import catalog, links, lists, uses
from .methods import Method, method

COLLECTION = "instanceTemplates"


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a template. It cannot be changed afterwards, and a wrong machine type shows later."""
    scope, wanted = _scope(cloud, call), call.json()
    name = str(wanted.get("name") or "")
    if not links.NAME.fullmatch(name):
        raise invalid("name", name, f"Must be a match of regex '{links.NAME.pattern}'")
    if f"{scope}/{name}" in cloud.around.instance_templates:
        raise already_exists(_resource(cloud, scope, name))
    properties = wanted.get("properties") or {}
    _check(properties)
    template: dict[str, Any] = {
        **{key: wanted[key] for key in ("name", "description") if key in wanted},
        "id": operations.number(),
        "creationTimestamp": operations.written(cloud.clock.now()),
        "scope": scope,
        "properties": properties,
    }
    cloud.around.instance_templates.put(f"{scope}/{name}", template)
    return _begin(cloud, "insert", template)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one template."""
    return show(cloud, _template(cloud, call))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the templates of a scope."""
    scope = _scope(cloud, call)
    shown = [show(cloud, t) for t in cloud.around.instance_templates if t["scope"] == scope]
    return lists.page(cloud, call, "compute#instanceTemplateList", f"{scope}/{COLLECTION}", shown)


def aggregated(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List all templates."""
    shown = [(each["scope"], show(cloud, each)) for each in cloud.around.instance_templates]
    scopes = ["global", *(f"regions/{region}" for region in places.REGIONS)]
    kind = "compute#instanceTemplateAggregatedList"
    return lists.aggregated(cloud, call, kind, COLLECTION, scopes, shown)


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete a template that no group uses."""
    template = _template(cloud, call)
    scope, name = template["scope"], template["name"]
    uses.refuse(cloud, "instance_template", f"{scope}/{COLLECTION}/{name}")
    cloud.around.instance_templates.drop(f"{scope}/{name}")
    return _begin(cloud, "delete", template)


def find(cloud: Cloud, url: str) -> dict[str, Any] | None:
    """Return the template that a whole or partial link points to, as it is stored."""
    key = links.key(cloud, url, COLLECTION)
    return cloud.around.instance_templates.get(key) if key else None


def show(cloud: Cloud, template: dict[str, Any]) -> dict[str, Any]:
    """Return a template as the API shows it."""
    scope, properties = template["scope"], dict(template["properties"])
    metadata = properties.get("metadata") or {}
    properties["metadata"] = {
        "kind": "compute#metadata",
        "fingerprint": fingerprint(metadata.get("items", [])),
        **metadata,
    }
    return {
        **{key: template[key] for key in ("name", "description", "id") if key in template},
        "kind": "compute#instanceTemplate",
        "creationTimestamp": template["creationTimestamp"],
        "properties": properties,
        "selfLink": operations.link(cloud, f"{scope}/{COLLECTION}/{template['name']}"),
        **({"region": operations.link(cloud, scope)} if scope != "global" else {}),
    }


def _check(properties: dict[str, Any]) -> None:
    """Raise if a part is missing, or an image does not exist."""
    if not properties.get("machineType"):
        raise invalid("properties.machineType", "", "The machine type must be specified.")
    if "/" in properties["machineType"]:
        why = f"Must be a match of regex '{links.NAME.pattern}'"
        raise invalid("properties.machineType", properties["machineType"], why)
    if not properties.get("disks"):
        raise invalid("properties.disks", "", "No disks are specified.")
    if not properties.get("networkInterfaces"):
        why = "At least one network interface is required."
        raise invalid("properties.networkInterfaces", "", why)
    for index, disk in enumerate(properties["disks"]):
        url = (disk.get("initializeParams") or {}).get("sourceImage", "")
        if url and catalog.image(url) is None:
            field = f"properties.disks[{index}].initializeParams.sourceImage"
            raise invalid(field, url, "The referenced image resource cannot be found.")


def _scope(cloud: Cloud, call: Call) -> str:
    return f"regions/{catalog.region_of(cloud, call)}" if call["region"] else "global"


def _template(cloud: Cloud, call: Call) -> dict[str, Any]:
    scope, name = _scope(cloud, call), call["id"]
    found = cloud.around.instance_templates.get(f"{scope}/{name}")
    if found is None:
        raise not_found(_resource(cloud, scope, name))
    return found


def _resource(cloud: Cloud, scope: str, name: str) -> str:
    return f"projects/{cloud.project}/{scope}/{COLLECTION}/{name}"


def _begin(cloud: Cloud, kind: str, template: dict[str, Any]) -> dict[str, Any]:
    scope = template["scope"]
    target = f"{scope}/{COLLECTION}/{template['name']}"
    return operations.begin(cloud, kind, target, scope, template["id"])


def _methods(place: str, collection: str) -> list[Method]:
    base = f"{place}/instanceTemplates"
    return [
        method("GET", base, f"{collection}.list", listed),
        method("POST", base, f"{collection}.insert", insert),
        method("GET", base + "/{id}", f"{collection}.get", get),
        method("DELETE", base + "/{id}", f"{collection}.delete", delete),
    ]


METHODS = [
    method("GET", "/aggregated/instanceTemplates", "instanceTemplates.aggregatedList", aggregated),
    *_methods("/global", "instanceTemplates"),
    *_methods("/regions/{region}", "regionInstanceTemplates"),
]
