#!/usr/bin/env python3
"""Cut from Google's discovery documents what the local cloud needs of them.

    .venv/bin/python local_cloud/scripts/cut_compute_document.py

The documents come with google-api-python-client. Of Compute Engine's this keeps what the local
cloud serves, without descriptions, which are nine tenths of its size; of all documents the names
and paths of the methods, so that the local cloud can name one that it does not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLOUD = Path(__file__).parents[1] / "src/tpu_local_cloud"
FOLDER = CLOUD / "model/shared/discovery_documents"
OURS, NAMES = FOLDER / "compute.v1.json", FOLDER / "methods.txt"
# The versions of each service of which the local cloud has a part.
SERVICES = {
    "cloudresourcemanager": "v1 v3",
    "compute": "v1 beta alpha",
    "iam": "v1",
    "oslogin": "v1",
    "secretmanager": "v1",
    "serviceusage": "v1 v1beta1",
    "storage": "v1",
    "tpu": "v1 v1alpha1 v2 v2alpha1",
}
# Of the first level: what `bind` and `parse` need, and where the document is from.
KEPT = ("id", "kind", "name", "version", "revision", "servicePath", "batchPath", "parameters")
TEXTS = ("description", "enumDescriptions", "enumDeprecated")
METHODS = {
    "acceleratorTypes": "aggregatedList get list",
    "autoscalers": "list",
    "diskTypes": "get list",
    "disks": "aggregatedList delete get insert list resize setLabels",
    "firewalls": "delete get insert list patch update",
    "futureReservations": "aggregatedList cancel delete get insert list",
    "globalOperations": "aggregatedList delete get list wait",
    "imageFamilyViews": "get",
    "images": "get getFromFamily list",
    "instanceGroupManagerResizeRequests": "cancel delete get insert list",
    "instanceGroupManagers": "abandonInstances aggregatedList applyUpdatesToInstances "
    "createInstances delete deleteInstances get insert list listErrors listManagedInstances "
    "listPerInstanceConfigs patch recreateInstances resize setInstanceTemplate startInstances "
    "stopInstances",
    "instanceGroups": "list",
    "instanceTemplates": "aggregatedList delete get insert list",
    "instances": "addAccessConfig aggregatedList attachDisk bulkInsert delete deleteAccessConfig "
    "detachDisk get getGuestAttributes getSerialPortOutput insert list listReferrers "
    "performMaintenance reportHostAsFaulty reset resume setDeletionProtection setLabels "
    "setMachineType setMetadata setScheduling setServiceAccount setTags simulateMaintenanceEvent "
    "start stop suspend update updateAccessConfig",
    "machineTypes": "aggregatedList get list",
    "networks": "delete get getEffectiveFirewalls insert list",
    "projects": "get setCommonInstanceMetadata",
    "regionAutoscalers": "list",
    "regionInstanceGroupManagerResizeRequests": "cancel delete get insert list",
    "regionInstanceGroupManagers": "abandonInstances applyUpdatesToInstances createInstances "
    "delete deleteInstances get insert list listErrors listManagedInstances patch "
    "recreateInstances resize setInstanceTemplate startInstances stopInstances",
    "regionInstanceGroups": "list",
    "regionInstanceTemplates": "delete get insert list",
    "regionOperations": "delete get list wait",
    "regions": "get list",
    "reservations": "aggregatedList delete get insert list",
    "resourcePolicies": "aggregatedList delete get insert list",
    "subnetworks": "aggregatedList delete get insert list",
    "zoneOperations": "delete get list wait",
    "zones": "get list",
}


def cut(document: dict[str, Any]) -> dict[str, Any]:
    """Return the methods of METHODS, and the schemas that they lead to."""
    resources = {
        name: {"methods": {each: document["resources"][name]["methods"][each] for each in words}}
        for name, words in ((name, text.split()) for name, text in METHODS.items())
    }
    schemas: dict[str, Any] = {}
    found = list(_references(resources))
    while found:
        name = found.pop()
        if name not in schemas:
            schemas[name] = document["schemas"][name]
            found += _references(schemas[name])
    kept = {key: document[key] for key in KEPT}
    return _without_texts(
        {**kept, "resources": resources, "schemas": dict(sorted(schemas.items()))}
    )


def names(documents: dict[str, dict[str, Any]]) -> str:
    """Return a line for each method of documents by name: its name, verb and path."""
    found = {
        f"{method['id']} {method['httpMethod']} {_path(document, method)}"
        for document in documents.values()
        for method in _methods(document)
    }
    return "".join(f"{line}\n" for line in sorted(found))


def _methods(place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from place.get("methods", {}).values()
    for inner in place.get("resources", {}).values():
        yield from _methods(inner)


def _path(document: dict[str, Any], method: dict[str, Any]) -> str:
    """Return the path of a method with {} for each id, and {v} for the version of Compute Engine.

    Its three versions have nearly the same methods.
    """
    path = document["servicePath"] + method.get("flatPath", method["path"])
    shape = re.sub(r"\{[^}]+\}", "{}", path)
    return re.sub(r"^compute/(v1|beta|alpha)/", "compute/{v}/", shape)


def installed() -> dict[str, dict[str, Any]]:
    """Return the documents that come with google-api-python-client, by name."""
    import googleapiclient

    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    wanted = [f"{name}.{each}" for name, words in SERVICES.items() for each in words.split()]
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in wanted}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _without_texts(value: Any) -> Any:
    """Leave descriptions out; a property called `description` is a dictionary, and stays."""
    if isinstance(value, dict):
        return {
            key: _without_texts(item)
            for key, item in value.items()
            if key not in TEXTS or isinstance(item, dict)
        }
    return [_without_texts(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    """Write our documents again."""
    documents = installed()
    OURS.write_text(json.dumps(cut(documents["compute.v1"]), indent=0) + "\n")
    NAMES.write_text(names(documents))


if __name__ == "__main__":
    main()
