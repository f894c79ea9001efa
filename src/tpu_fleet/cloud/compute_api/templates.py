"""Instance templates, of the project and of a region."""

from __future__ import annotations

from typing import Any

from ..compute_errors import already_exists, in_use, not_found
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from . import lists
from .routes import route
from .times import of_stamp


def find(cloud: Cloud, url: str) -> dict[str, Any] | None:
    """Return the template that a URL, whole or partial, names."""
    words = url.split("/")[-4:]
    if words[-2:-1] != ["instanceTemplates"]:
        return None
    place = "global" if words[-3] == "global" else words[-3]
    return cloud.around.templates.get(f"{place}/{words[-1]}")


def _place(call: Call) -> tuple[str, str]:
    region = call["region"]
    return (region, f"regions/{region}") if region else ("global", "global")


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Add a template."""
    (place, scope), wanted = _place(call), call.json()
    path = f"{scope}/instanceTemplates/{wanted.get('name')}"
    if f"{place}/{wanted.get('name')}" in cloud.around.templates:
        raise already_exists(f"projects/{cloud.project}/{path}")
    template = {
        "kind": "compute#instanceTemplate",
        "id": operations.number(),
        "creationTimestamp": of_stamp(cloud.clock.timestamp()),
        **wanted,
        "selfLink": operations.link(cloud, path),
        **({"region": operations.link(cloud, scope)} if place != "global" else {}),
    }
    cloud.around.templates.put(f"{place}/{wanted.get('name')}", template)
    return operations.begin(cloud, "insert", path, scope)


def _template(cloud: Cloud, call: Call) -> tuple[str, dict[str, Any]]:
    place, scope = _place(call)
    found = cloud.around.templates.get(f"{place}/{call['id']}")
    if found is None:
        raise not_found(f"projects/{cloud.project}/{scope}/instanceTemplates/{call['id']}")
    return f"{scope}/instanceTemplates/{call['id']}", found


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one template."""
    return _template(cloud, call)[1]


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the templates of the project or of a region."""
    link = operations.link(cloud, f"{_place(call)[1]}/instanceTemplates/")
    found = [each for each in cloud.around.templates if each["selfLink"].startswith(link)]
    return {
        "kind": "compute#instanceTemplateList",
        **lists.page(call, "items", found, lambda each: each),
    }


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Remove a template that no group uses."""
    path, _found = _template(cloud, call)
    users = cloud.compute.users_of_template(path)
    if users:
        raise in_use("instance_template", f"projects/{cloud.project}/{path}", users[0])
    place, scope = _place(call)
    cloud.around.templates.drop(f"{place}/{call['id']}")
    return operations.begin(cloud, "delete", path, scope)


ROUTES = [
    route(http, place + tail, f"{collection}.{verb}", handler, f"instanceTemplates.{needed}")
    for place, collection in (
        ("/global/instanceTemplates", "instanceTemplates"),
        ("/regions/{region}/instanceTemplates", "regionInstanceTemplates"),
    )
    for http, tail, verb, handler, needed in (
        ("GET", "", "list", listed, "list"),
        ("POST", "", "insert", insert, "create"),
        ("GET", "/{id}", "get", get, "get"),
        ("DELETE", "/{id}", "delete", delete, "delete"),
    )
]
