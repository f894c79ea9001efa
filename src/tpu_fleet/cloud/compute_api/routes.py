"""The methods of Compute Engine that are answered here; each checks its request first."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._compute.machine_types import IMAGE_PROJECT

from ..google import api, operations
from . import catalog, policies, reservations, schema, templates

_ZONE, _REGION = "/zones/{zone}", "/regions/{region}"
_POLICIES = _REGION + "/resourcePolicies"
_TEMPLATES, _OF_REGION = "/global/instanceTemplates", _REGION + "/instanceTemplates"
_RESERVATIONS = _ZONE + "/reservations"


def _route(
    method: str, tail: str, permission: str, handler: api.Handler, project: str = "{project}"
) -> api.Route:
    checked = schema.checked(method, tail, handler)
    return api.compute(method, tail, permission, checked, project)


# Public images first, because their project is not the cloud's.
ROUTES: list[api.Route] = [
    _route("GET", "/global/images", "images.list", catalog.list_images, IMAGE_PROJECT),
    _route("GET", "/global/images/{id}", "images.get", catalog.get_image, IMAGE_PROJECT),
    _route("GET", "/global/images/family/{id}", "images.getFromFamily",
           catalog.get_image_of_family, IMAGE_PROJECT),
    _route("GET", _ZONE + "/imageFamilyViews/{id}", "images.getFromFamily",
           catalog.get_image_family_view, IMAGE_PROJECT),
    _route("GET", "/global/images", "images.list", catalog.list_images),
    _route("GET", "/global/images/{id}", "images.get", catalog.get_image),
    _route("GET", "/global/images/family/{id}", "images.getFromFamily",
           catalog.get_image_of_family),
    _route("GET", _ZONE + "/imageFamilyViews/{id}", "images.getFromFamily",
           catalog.get_image_family_view),
    _route("GET", "/zones", "zones.list", catalog.list_zones),
    _route("GET", _ZONE, "zones.get", catalog.get_zone),
    _route("GET", "/regions", "regions.list", catalog.list_regions),
    _route("GET", _REGION, "regions.get", catalog.get_region),
    _route("GET", "/aggregated/machineTypes", "machineTypes.list", catalog.all_machine_types),
    _route("GET", _ZONE + "/machineTypes", "machineTypes.list", catalog.list_machine_types),
    _route("GET", _ZONE + "/machineTypes/{id}", "machineTypes.get", catalog.get_machine_type),
    _route("GET", "/aggregated/acceleratorTypes", "acceleratorTypes.list",
           catalog.all_accelerator_types),
    _route("GET", _ZONE + "/acceleratorTypes", "acceleratorTypes.list",
           catalog.list_accelerator_types),
    _route("GET", "/aggregated/resourcePolicies", "resourcePolicies.list", policies.aggregated),
    _route("GET", _POLICIES, "resourcePolicies.list", policies.listed),
    _route("POST", _POLICIES, "resourcePolicies.create", policies.insert),
    _route("GET", _POLICIES + "/{id}", "resourcePolicies.get", policies.get),
    _route("DELETE", _POLICIES + "/{id}", "resourcePolicies.delete", policies.delete),
    _route("GET", "/aggregated/instanceTemplates", "instanceTemplates.list",
           templates.aggregated),
    *(
        route
        for tail in (_TEMPLATES, _OF_REGION)
        for route in (
            _route("GET", tail, "instanceTemplates.list", templates.listed),
            _route("POST", tail, "instanceTemplates.create", templates.insert),
            _route("GET", tail + "/{id}", "instanceTemplates.get", templates.get),
            _route("DELETE", tail + "/{id}", "instanceTemplates.delete", templates.delete),
        )
    ),
    _route("GET", "/aggregated/reservations", "reservations.list", reservations.aggregated),
    _route("GET", _RESERVATIONS, "reservations.list", reservations.listed),
    _route("POST", _RESERVATIONS, "reservations.create", reservations.insert),
    _route("GET", _RESERVATIONS + "/{id}", "reservations.get", reservations.get),
    _route("DELETE", _RESERVATIONS + "/{id}", "reservations.delete", reservations.delete),
    _route("GET", _REGION + "/operations", "regionOperations.list", operations.listed),
    _route("GET", _REGION + "/operations/{id}", "regionOperations.get", operations.get),
    _route("POST", _REGION + "/operations/{id}/wait", "regionOperations.get", operations.get),
]  # fmt: skip
