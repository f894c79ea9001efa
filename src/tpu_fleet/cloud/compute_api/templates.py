"""Instance templates, global and of a region: the properties of the VMs of a group."""

from __future__ import annotations

from ..compute_errors import invalid
from ..google.disks import fingerprint
from ..model.cloud import Cloud
from . import catalog, links, uses
from .kept import Document, Kept, kept

COLLECTION = "instanceTemplates"


def _read(_cloud: Cloud, _scope: str, wanted: Document) -> Document:
    """Check a template, which cannot be changed later; a wrong machine type shows at its use."""
    properties = wanted.get("properties") or {}
    _check(properties)
    return {**kept(wanted, "description"), "properties": properties}


def _show(_cloud: Cloud, template: Document) -> Document:
    properties = template["properties"]
    metadata = properties.get("metadata") or {}
    marked = {
        "kind": "compute#metadata",
        "fingerprint": fingerprint(metadata.get("items", [])),
        **metadata,
    }
    return {"properties": {**properties, "metadata": marked}}


def _refuse_deletion(cloud: Cloud, template: Document) -> None:
    uses.refuse(cloud, "instance_template", TEMPLATES.tail(template))


def _check(properties: Document) -> None:
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


TEMPLATES = Kept(
    COLLECTION,
    "instance_templates",
    "compute#instanceTemplate",
    {"global": COLLECTION, "regions": "regionInstanceTemplates"},
    _read,
    _show,
    _refuse_deletion,
)
METHODS = TEMPLATES.methods()
