"""Instance templates, global and of a region: the properties of the VMs of a group."""

from __future__ import annotations

from ..compute_errors import invalid
from ..google.answers import fingerprint
from ..model.cloud import Cloud
from . import catalog, links, uses, values
from .kept import Document, Kept, kept

COLLECTION = "instanceTemplates"


def _read(cloud: Cloud, scope: str, wanted: Document) -> Document:
    """Check a template, which cannot be changed later; a wrong machine type shows at its use."""
    properties = wanted.get("properties") or {}
    _check(cloud, scope, properties)
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


def _check(cloud: Cloud, scope: str, properties: Document) -> None:
    """Raise if a part is missing or wrong, or an image does not exist."""
    if not properties.get("machineType"):
        raise invalid("properties.machineType", "", "The machine type must be specified.")
    if "/" in properties["machineType"]:
        why = f"Must be a match of regex '{links.NAME.pattern}'"
        raise invalid("properties.machineType", properties["machineType"], why)
    if not properties.get("disks"):
        raise invalid("properties.disks", "", "No disks are specified.")
    here = "resource.properties"
    values.check_labels(properties.get("labels") or {}, f"{here}.labels")
    values.check_tags((properties.get("tags") or {}).get("items") or [], f"{here}.tags")
    values.read_metadata(properties.get("metadata") or {}, f"{here}.metadata")
    values.check_accounts(properties.get("serviceAccounts") or [], f"{here}.serviceAccounts")
    cards = properties.get("networkInterfaces") or []
    values.check_networks(cloud, scope.partition("regions/")[2], cards, here)
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
