"""The Service Usage API: which services are enabled in the project."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import unquote

from .. import errors
from ..errors import TYPE_URL, ApiError
from ..model.cloud import Cloud
from ..model.compute import quota as compute_quota
from .answers import Call

_V1 = "type.googleapis.com/google.api.serviceusage.v1."


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the services, all or those in a state."""
    asked = call.query.get("filter", "")
    state = asked.partition("state:")[2].strip() if "state:" in asked else ""
    found = [item for item in cloud.around.services if state in ("", item["state"])]
    return call.page(found, "services", lambda item: _show(cloud, item))


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one service."""
    return _show(cloud, _service(cloud, call["id"]))


def enable(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Enable a service."""
    [shown] = _switch(cloud, [call["id"]], "ENABLED")
    answer = {"@type": f"{_V1}EnableServiceResponse", "service": shown}
    return _begin(cloud, [call["id"]], answer)


def batch_enable(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Enable several services."""
    names = [str(name) for name in call.json().get("serviceIds", [])]
    answer = {
        "@type": f"{_V1}BatchEnableServicesResponse",
        "services": _switch(cloud, names, "ENABLED"),
    }
    return _begin(cloud, names, answer)


def batch_get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return several services."""
    # A query has one value per name here, so only the last of several counts.
    name = call.query.get("names", "").rpartition("/")[2]
    return {"services": [_show(cloud, _service(cloud, name))]}


def disable(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Disable a service."""
    [shown] = _switch(cloud, [call["id"]], "DISABLED")
    answer = {"@type": f"{_V1}DisableServiceResponse", "service": shown}
    return _begin(cloud, [call["id"]], answer)


def quota(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one quota of Compute Engine by its metric; those of others are not served."""
    service, metric = call["id"], unquote(call["metric"])
    name = f"projects/{cloud.number}/services/{service}/consumerQuotaMetrics/{call['metric']}"
    known = None
    if metric.startswith("compute.googleapis.com/"):
        known = compute_quota.limits(cloud, metric.partition("/")[2])
    if known is None:
        raise errors.not_found(name)
    unit = "1/{project}/{region}"
    buckets = [
        {"effectiveLimit": str(limit), "defaultLimit": str(limit), "dimensions": where}
        for where, limit in known
    ]
    limit = {"name": f"{name}/limits/%2Fproject%2Fregion", "metric": metric, "unit": unit}
    limits = [{**limit, "isPrecise": True, "quotaBuckets": buckets}]
    return {"name": name, "metric": metric, "unit": "1", "consumerQuotaLimits": limits}


def operation(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one operation."""
    found = cloud.around.operations.get(call["id"])
    if found is None:
        raise errors.not_found(f"operations/{call['id']}")
    return _show_operation(cloud, found)


def _service(cloud: Cloud, name: str) -> dict[str, Any]:
    found = cloud.around.services.get(name)
    if found is None:
        raise ApiError(
            "PERMISSION_DENIED",
            f"Not found or permission denied for service(s): {name}.",
            [
                {
                    **errors.error_info(
                        "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED", {"services": name}
                    ),
                    "domain": "serviceusage.googleapis.com",
                }
            ],
        )
    return found


def _switch(cloud: Cloud, names: list[str], state: str) -> list[dict[str, Any]]:
    services = [_service(cloud, name) for name in names]
    if state == "ENABLED" and cloud.faults.hit("billing_disabled", cloud.clock.now()):
        raise _no_billing(cloud, names)
    for service in services:
        cloud.around.services.put(service["service"], {**service, "state": state})
    return [_show(cloud, _service(cloud, name)) for name in names]


def _no_billing(cloud: Cloud, names: list[str]) -> ApiError:
    return ApiError(
        "FAILED_PRECONDITION",
        f"Billing account for project '{cloud.number}' is not found. Billing must be enabled for "
        f"activation of service(s) '{','.join(names)}' to proceed.",
        [
            {
                "@type": TYPE_URL + "PreconditionFailure",
                "violations": [
                    {
                        "type": "googleapis.com/billing-enabled",
                        "subject": f"?error_code=390001&project={cloud.number}",
                    }
                ],
            },
            {
                **errors.error_info(
                    "UREQ_PROJECT_BILLING_NOT_FOUND",
                    {"project": cloud.number, "services": ",".join(names)},
                ),
                "domain": "serviceusage.googleapis.com/billing-enabled",
            },
        ],
    )


def _show(cloud: Cloud, service: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": f"projects/{cloud.number}/services/{service['service']}",
        "config": {"name": service["service"]},
        "state": service["state"],
        "parent": f"projects/{cloud.number}",
    }


def _begin(cloud: Cloud, names: list[str], response: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "name": f"acf.p2-{cloud.number}-{secrets.token_hex(16)}",
        "scope": "services",
        "targets": [f"services/{name}" for name in names],
        "response": response,
        "due": cloud.clock.due(cloud.delays["update"]),
    }
    cloud.around.operations.put(operation["name"], operation)
    return _show_operation(cloud, operation)


def _show_operation(cloud: Cloud, operation: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": f"operations/{operation['name']}",
        "metadata": {"@type": f"{_V1}OperationMetadata", "resourceNames": operation["targets"]},
    }
    if cloud.clock.now() >= operation["due"]:
        shown |= {"done": True, "response": operation["response"]}
    return shown
