#!/usr/bin/env python3
"""Cut from Google's discovery document of Compute Engine what the local cloud serves.

    .venv/bin/python scripts/cut_compute_document.py

The document comes with google-api-python-client. Descriptions are left out, because they are nine
tenths of its size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OURS = Path(__file__).parents[1] / "src/tpu_fleet/cloud/model/discovery_documents/compute.v1.json"
# Of the first level: what `bind` and `parse` need, and where the document is from.
KEPT = ("id", "kind", "name", "version", "revision", "servicePath", "batchPath", "parameters")
TEXTS = ("description", "enumDescriptions", "enumDeprecated")
METHODS = {
    "acceleratorTypes": "aggregatedList get list",
    "advice": "calendarMode",
    "autoscalers": "list",
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
    "projects": "get",
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
    """Write ours anew."""
    import googleapiclient

    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    document = json.loads((folder / "compute.v1.json").read_text())
    OURS.write_text(json.dumps(cut(document), indent=0) + "\n")


if __name__ == "__main__":
    main()
