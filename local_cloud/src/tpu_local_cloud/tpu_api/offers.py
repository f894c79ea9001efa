"""Methods for what zones offer: locations, accelerator types, runtime versions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import errors
from ..model.cloud import Cloud
from ..model.shared import catalog
from ..tables._schema.accelerators import API_ENUM, topologies
from .call import Call
from .lists import fault_page, lost_zones, name_lost


def list_locations(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the zones, including those that may not be used."""
    return fault_page(
        cloud, call, catalog.LISTED_ZONES, "locations", lambda zone: _location(cloud, zone)
    )


def get_location(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one zone."""
    return _location(cloud, call.zone)


def _location(cloud: Cloud, zone: str) -> dict[str, Any]:
    name = f"projects/{cloud.project}/locations/{zone}"
    return {"name": name, "locationId": zone}


def service_identity(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the service account of the service itself."""
    call.parse("Empty", "")
    return {"identity": {"email": f"service-{cloud.number}@cloud-tpu.iam.gserviceaccount.com"}}


def _page(
    cloud: Cloud, call: Call, items: list[Any], key: str, show: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return one page of what a zone offers; empty if the zone is unreachable."""
    lost = lost_zones(cloud, call)
    return name_lost(cloud, fault_page(cloud, call, [] if lost else items, key, show), lost)


def list_types(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the accelerator types of a zone."""
    return _page(
        cloud,
        call,
        catalog.types_in(call.zone),
        "acceleratorTypes",
        lambda t: _type(cloud, call.zone, t.name),
    )


def get_type(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one accelerator type."""
    if catalog.type_in(call.zone, call.id) is None:
        raise errors.not_found(_named(cloud, call, "acceleratorTypes"))
    return _type(cloud, call.zone, call.id)


def _type(cloud: Cloud, zone: str, name: str) -> dict[str, Any]:
    kind = catalog.type_in(zone, name)
    config = (
        [{"type": API_ENUM[kind.generation], "topology": each} for each in topologies(kind)]
        if kind is not None
        else []
    )
    return {
        "name": f"projects/{cloud.project}/locations/{zone}/acceleratorTypes/{name}",
        "type": name,
        "acceleratorConfigs": config,
    }


def list_runtimes(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the runtime versions of a zone."""
    versions = catalog.runtimes_in(call.zone)
    show = functools.partial(_runtime, cloud, call.zone)
    return _page(cloud, call, versions, "runtimeVersions", show)


def get_runtime(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one runtime version."""
    if call.id not in catalog.runtimes_in(call.zone):
        raise errors.not_found(_named(cloud, call, "runtimeVersions"))
    return _runtime(cloud, call.zone, call.id)


def _runtime(cloud: Cloud, zone: str, version: str) -> dict[str, Any]:
    name = f"projects/{cloud.project}/locations/{zone}/runtimeVersions/{version}"
    return {"name": name, "version": version}


def _named(cloud: Cloud, call: Call, collection: str) -> str:
    return f"projects/{cloud.project}/locations/{call.zone}/{collection}/{call.id}"
