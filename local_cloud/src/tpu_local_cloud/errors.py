"""All error texts of the API, verbatim where Google's own answer is known."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from .tables._schema.accelerators import GENERATIONS

TYPE_URL = "type.googleapis.com/google.rpc."

# Of a status the code of HTTP and that of gRPC.
_CODES = {
    "CANCELLED": (499, 1),
    "INVALID_ARGUMENT": (400, 3),
    "DEADLINE_EXCEEDED": (504, 4),
    "NOT_FOUND": (404, 5),
    "ALREADY_EXISTS": (409, 6),
    "PERMISSION_DENIED": (403, 7),
    "RESOURCE_EXHAUSTED": (429, 8),
    "FAILED_PRECONDITION": (400, 9),
    "ABORTED": (409, 10),
    "UNIMPLEMENTED": (501, 12),
    "INTERNAL": (500, 13),
    "UNAVAILABLE": (503, 14),
    "UNAUTHENTICATED": (401, 16),
}
RPC_CODE = {status: code for status, (_, code) in _CODES.items()}


class ApiError(Exception):
    """An answer that is not 200, or the error of an operation."""

    def __init__(
        self,
        status: str,
        message: str,
        details: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.details = details or []
        self.headers = headers or {}

    @property
    def http(self) -> int:
        """Return the HTTP status code."""
        return _CODES[self.status][0]

    def body(self) -> dict[str, Any]:
        """Return the body of an HTTP answer."""
        error: dict[str, Any] = {"code": self.http, "message": self.message, "status": self.status}
        if self.details:
            error["details"] = self.details
        return {"error": error}

    def rpc_status(self) -> dict[str, Any]:
        """Return the google.rpc.Status that a failed operation holds."""
        status: dict[str, Any] = {"code": RPC_CODE[self.status], "message": self.message}
        if self.details:
            status["details"] = self.details
        return status


def eid() -> str:
    """Return an event id, which ends many of the service's messages."""
    return f"[EID: 0x{secrets.token_hex(8).lstrip('0')}]"


def error_info(reason: str, metadata: dict[str, str]) -> dict[str, Any]:
    """Return the detail that names a reason."""
    return {
        "@type": TYPE_URL + "ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": metadata,
    }


def _of_tpu(reason: str, **metadata: str) -> dict[str, Any]:
    """Return the detail that names a reason of the TPU API's."""
    return error_info(reason, {"service": "tpu.googleapis.com", **metadata})


def _invalid(text: str, *violations: dict[str, str]) -> ApiError:
    """Return the gateway's details about fields, which the service never sees."""
    detail = {"@type": TYPE_URL + "BadRequest", "fieldViolations": list(violations)}
    return ApiError("INVALID_ARGUMENT", text, [detail])


# 400 ------------------------------------------------------------------------------------------


def unknown_fields(fields: list[tuple[str, str]]) -> ApiError:
    """Unknown fields as (name, where): `where` is the path of the message without such a field."""
    texts = []
    violations = []
    for name, where in fields:
        at = f" at '{where}'" if where else ""
        text = f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.'
        texts.append(text)
        violations.append({"field": where, "description": text} if where else {"description": text})
    return _invalid("\n".join(texts), *violations)


def not_repeated(name: str, where: str) -> ApiError:
    """A list for a field that takes one value."""
    at = f" at '{where}'" if where else ""
    text = (
        f'Invalid JSON payload received. Unknown name "{name}"{at}: Proto field is not repeating, '
        "cannot start list."
    )
    violation = {"field": where, "description": text} if where else {"description": text}
    return _invalid(text, violation)


def unknown_parameters(names: list[str]) -> ApiError:
    """Parameters of a query that the method does not have."""
    texts = [
        f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
        for name in names
    ]
    violations = [{"description": text} for text in texts]
    return _invalid("\n".join(texts), *violations)


def invalid_value(path: str, kind: str, value: Any) -> ApiError:
    """A value that is not of the field's type."""
    text = f"Invalid value at '{path}' ({kind}), {json.dumps(value)}"
    return _invalid(text, {"field": path, "description": text})


def invalid_json(why: str = "Unexpected token.") -> ApiError:
    """A body that is not JSON."""
    return ApiError("INVALID_ARGUMENT", f"Invalid JSON payload received. {why}\n\n^")


def nested_too_deep(key: str) -> ApiError:
    """A body whose objects and lists go deeper than Google's parser."""
    where = f"for key '{key}'" if key else "in array"
    return ApiError(
        "INVALID_ARGUMENT",
        f"Invalid JSON payload received. Message too deep. Max recursion depth reached {where}",
    )


def too_large(most: int) -> ApiError:
    """A body of more bytes than Google reads."""
    return ApiError("INVALID_ARGUMENT", f"Request payload size exceeds the limit: {most} bytes.")


def bad_request(reason: str) -> ApiError:
    """A refusal by the service itself; all begin alike."""
    return ApiError("INVALID_ARGUMENT", f"Cloud TPU received a bad request. {reason} {eid()}")


def invalid_labels(why: str) -> ApiError:
    """Labels that are none. Google's words for a wrong character in a value are known."""
    return ApiError("INVALID_ARGUMENT", f"resource labels are invalid: {why}")


def type_not_in_zone(accelerator_type: str, zone: str) -> ApiError:
    """The zone does not offer this type."""
    return bad_request(
        f'The requested accelerator configuration for accelerator type, "{accelerator_type}", '
        f'could not be found in the zonal accelerator configurations for "{zone}".; the '
        f"accelerator {accelerator_type} was not found in zone {zone}"
    )


def runtime_not_in_zone(version: str, zone: str) -> ApiError:
    """The zone does not offer this runtime version. The wording is ours; Google's is not known."""
    return bad_request(f'The requested runtime version "{version}" was not found in zone "{zone}".')


def zone_not_supported(zone: str) -> ApiError:
    """The service is not in this zone, or there is no such zone."""
    return bad_request(f'The requested zone "{zone}" is not supported.')


def wrong_state(verb: str, state: str) -> ApiError:
    """The operation is impossible in the node's state."""
    return bad_request(f"{verb} is not supported while in state {state}")


def single_host_only() -> ApiError:
    """Stop and start are for nodes with one VM."""
    return bad_request("This operation is only available with single TPU nodes.")


def cannot_restart(spot: bool) -> ApiError:
    """Preemptible and spot nodes cannot be started again."""
    if spot:
        return bad_request("Spot VM TPUs cannot be restarted, and must be recreated again")
    return bad_request("Preemptible TPUs cannot be restarted")


def malformed_name(name: str) -> ApiError:
    """A node id that breaks the rules for ids."""
    return ApiError("INVALID_ARGUMENT", f"Malformed name: '{name}'")


def invalid_mask() -> ApiError:
    """A missing mask, or one that names a field that cannot be updated."""
    return ApiError("INVALID_ARGUMENT", "The request was invalid: invalid update mask")


def unknown_selection(path: str) -> ApiError:
    """The parameter `fields` names what the answer never has."""
    text = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'."
    return _invalid("Request contains an invalid argument.", {"field": path, "description": text})


def invalid_alt(value: str) -> ApiError:
    """The parameter `alt` names no form of an answer. The wording is ours."""
    return ApiError("INVALID_ARGUMENT", f'Invalid value "{value}" for the parameter alt.')


def invalid_page_size() -> ApiError:
    """A page size that is no number, or negative."""
    return ApiError("INVALID_ARGUMENT", "Invalid argument: 'page_size'")


def invalid_filter(text: str, why: str) -> ApiError:
    """A filter that is invalid or names an unknown field. The wording is ours."""
    return ApiError("INVALID_ARGUMENT", f"Invalid argument: 'filter': {why} in {text!r}")


def invalid_order(text: str) -> ApiError:
    """An order that is invalid or names an unknown field. The wording is ours."""
    return ApiError(
        "INVALID_ARGUMENT",
        f"Invalid argument: 'order_by': {text!r} is not a list of fields, each followed by asc, "
        "desc or nothing",
    )


def invalid_page_token() -> ApiError:
    """A page token that the service did not issue."""
    return ApiError("INVALID_ARGUMENT", "The request was invalid: invalid page token")


def one_of(path: str, group: str, name: str) -> ApiError:
    """Two fields that exclude each other; the gateway refuses them before the service."""
    text = (
        f"Invalid value at '{path}' (oneof), oneof field '{group}' is already set. "
        f"Cannot set '{name}'"
    )
    return _invalid(text, {"field": path, "description": text})


def invalid_request_id() -> ApiError:
    """A request id that is no UUID."""
    return ApiError("INVALID_ARGUMENT", "The request was invalid: Must be a valid UUID")


def incompatible_request_id() -> ApiError:
    """A request id that another request had."""
    return ApiError(
        "INVALID_ARGUMENT",
        "The request was invalid: attempted to reuse 'request_id' for incompatible requests",
    )


def flex_start_not_supported(accelerator_type: str, zone: str) -> ApiError:
    """The type is not offered as flex-start; an operation fails with it."""
    return ApiError(
        "INVALID_ARGUMENT",
        f'FLEX_START provisioning model is not supported for accelerator type "{accelerator_type}" '
        f'in location "{zone}"',
    )


def queued_has_nodes(name: str, state: str) -> ApiError:
    """Deleting without force. The wording is ours; Google's is not known."""
    return ApiError(
        "FAILED_PRECONDITION",
        f'Cloud TPU received a bad request. The queued resource "{name}" in state {state} has '
        f"nodes: delete them first, or set force. {eid()}",
    )


def belongs_to_queued(verb: str) -> ApiError:
    """Nodes of a queued resource cannot be stopped or started. The wording is ours."""
    return bad_request(f"{verb} is not supported for a node that a queued resource made.")


# 401, 403 -------------------------------------------------------------------------------------


def no_credentials() -> ApiError:
    """No token."""
    return ApiError(
        "UNAUTHENTICATED",
        "Request is missing required authentication credential. Expected OAuth 2 access token, "
        "login cookie or other valid authentication credential. See "
        "https://developers.google.com/identity/sign-in/web/devconsole-project.",
        [_of_tpu("CREDENTIALS_MISSING", method="google.cloud.tpu.v2.Tpu")],
        {"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/"'},
    )


def unauthenticated() -> ApiError:
    """A token that is invalid or has expired."""
    return ApiError(
        "UNAUTHENTICATED",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login "
        "cookie or other valid authentication credential. See "
        "https://developers.google.com/identity/sign-in/web/devconsole-project.",
        [_of_tpu("ACCESS_TOKEN_EXPIRED", method="google.cloud.tpu.v2.Tpu")],
        {"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/", error="invalid_token"'},
    )


def quota_project_missing(service: str) -> ApiError:
    """A person's credentials name no quota project."""
    text = (
        "Your application is authenticating by using local Application Default Credentials. The "
        f"{service} API requires a quota project, which is not set by default. To learn how to set "
        "your quota project, see "
        "https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds ."
    )
    return ApiError(
        "PERMISSION_DENIED",
        text,
        [
            error_info(
                "SERVICE_DISABLED", {"consumer": "projects/764086051850", "service": service}
            ),
            {"@type": TYPE_URL + "LocalizedMessage", "locale": "en-US", "message": text},
        ],
    )


def api_disabled(number: str) -> ApiError:
    """The API is not enabled in the project."""
    url = f"https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?project={number}"
    return ApiError(
        "PERMISSION_DENIED",
        f"Cloud TPU API has not been used in project {number} before or it is disabled. Enable it "
        f"by visiting {url} then retry. If you enabled this API recently, wait a few minutes for "
        "the action to propagate to our systems and retry.",
        [
            {
                "@type": TYPE_URL + "Help",
                "links": [{"description": "Google developers console API activation", "url": url}],
            },
            _of_tpu("SERVICE_DISABLED", consumer=f"projects/{number}"),
        ],
    )


def iam_denied(permission: str, resource: str) -> ApiError:
    """The caller may not do this; also the answer for a project that is not ours."""
    return ApiError(
        "PERMISSION_DENIED",
        f"Permission '{permission}' denied on '{resource}'",
        [error_info("IAM_PERMISSION_DENIED", {"permission": permission, "resource": resource})],
    )


def location_denied_as_of_old(zone: str) -> ApiError:
    """The same, in the words of earlier years."""
    return ApiError("PERMISSION_DENIED", f"Location {zone} is not found or access is unauthorized.")


def location_denied(zone: str, number: str) -> ApiError:
    """The zone is closed to the project, or there is no such zone."""
    return ApiError(
        "PERMISSION_DENIED",
        f"Permission denied on 'locations/{zone}' (or it may not exist).",
        [_of_tpu("LOCATION_POLICY_VIOLATED", consumer=f"projects/{number}", location=zone)],
    )


def billing_disabled(number: str) -> ApiError:
    """The project has no billing account."""
    url = f"https://console.developers.google.com/billing/enable?project={number}"
    return ApiError(
        "PERMISSION_DENIED",
        f"This API method requires billing to be enabled. Please enable billing on project "
        f"#{number} by visiting {url} then retry.",
        [_of_tpu("BILLING_DISABLED", consumer=f"projects/{number}")],
    )


def queue_denied(accelerator_type: str, zone: str) -> ApiError:
    """The type is not offered to this project in this zone."""
    return ApiError(
        "PERMISSION_DENIED",
        f"User does not have permission to submit requests for accelerator type "
        f'"{accelerator_type}" in location {zone}',
    )


def queue_closed(accelerator_type: str, zone: str) -> ApiError:
    """The same for the queue; the operation of a queued resource fails with it."""
    return ApiError(
        "PERMISSION_DENIED",
        "User does not have permission to submit requests into this queue for accelerator type "
        f"{accelerator_type} in location {zone}.",
    )


# 404, 409 -------------------------------------------------------------------------------------


def not_found(resource: str) -> ApiError:
    """There is no such resource."""
    return ApiError("NOT_FOUND", f"Resource '{resource}' was not found", [_resource(resource)])


def _resource(name: str) -> dict[str, Any]:
    return {"@type": TYPE_URL + "ResourceInfo", "resourceName": name}


def reservation_not_found() -> ApiError:
    """No such reservation, or none at all where only reservations are sold."""
    return ApiError("NOT_FOUND", "Reservation not found")


class NoSuchMethod(ApiError):
    """The local cloud has no method at a path: Google has none either, or more than it."""

    def __init__(self, path: str) -> None:
        text = f"The requested URL {path} was not found on this server."
        super().__init__("NOT_FOUND", text)


def no_such_discovery(version: str) -> ApiError:
    """There is no such version of the API."""
    return ApiError(
        "NOT_FOUND",
        "Discovery document not found for API service: tpu.googleapis.com format: rest version: "
        f"{version}",
    )


def already_exists(resource: str) -> ApiError:
    """The name is taken."""
    return ApiError(
        "ALREADY_EXISTS", f"Resource '{resource}' already exists", [_resource(resource)]
    )


def busy() -> ApiError:
    """Another operation on the same resource is running."""
    return ApiError("ABORTED", "unable to queue the operation")


# 429 ------------------------------------------------------------------------------------------


def quota_id(generation: str, name: str, preemptible: bool) -> str:
    """Return the id of a type's quota."""
    quota = GENERATIONS[generation].tpu_quota + ("Preemptible" if preemptible else "")
    if generation == "v5e":
        serving = "Serving" if name in ("v5litepod-1", "v5litepod-4", "v5litepod-8") else ""
        quota += f"Litepod{serving}"
    return f"{quota}PerProjectPerZoneForTPUAPI"


def region_of(zone: str) -> str:
    """Return the region in which a zone lies."""
    return zone.rpartition("-")[0]


def quota_exceeded(
    quota: str, limit: int, zone: str, number: str, scopes: tuple[str, ...] = ("zone",)
) -> ApiError:
    """The project's capacity quota would be exceeded, in the zone, the region or both.

    The message names the first, the details name all.
    """
    texts, violations = [], []
    for scope in scopes:
        name = quota if scope == "zone" else quota.replace("PerZone", "PerRegion")
        place = f"{scope} {zone if scope == 'zone' else region_of(zone)}"
        texts.append(f"Quota limit '{name}' has been exceeded. Limit: {limit} in {place}.")
        violations.append(
            {
                "subject": f"project:{number}",
                "description": f"Quota '{name}' exhausted. Limit {limit} in {place}",
            }
        )
    detail = {"@type": TYPE_URL + "QuotaFailure", "violations": violations}
    return ApiError("RESOURCE_EXHAUSTED", texts[0], [detail])


# How many requests a minute a limit allows by default.
PER_MINUTE = 60


def rate_limited(
    number: str, retry_after: int | None, method: str, value: int = PER_MINUTE
) -> ApiError:
    """Too many requests in a minute for a method such as nodes.list.

    The quota's real name is known only for nodes.create.
    """
    collection, _, verb = method.partition(".")
    singular = collection if verb == "list" else collection.removesuffix("s")
    metric = f"tpu.googleapis.com/qps/{verb}"
    request = verb[:1].upper() + verb[1:] + singular[:1].upper() + singular[1:]
    limit = f"Maximum number of {request} requests per minute"
    return ApiError(
        "RESOURCE_EXHAUSTED",
        f"Quota exceeded for quota metric '{metric}' and limit '{limit}' of service "
        f"'tpu.googleapis.com' for consumer 'project_number:{number}'.",
        [
            error_info(
                "RATE_LIMIT_EXCEEDED",
                {
                    "service": "tpu.googleapis.com",
                    "consumer": f"projects/{number}",
                    "quota_metric": metric,
                    "quota_limit": limit,
                    "quota_limit_value": str(value),
                    "quota_location": "global",
                    "quota_unit": "1/min/{project}",
                },
            )
        ],
        {"Retry-After": str(retry_after)} if retry_after else None,
    )


# 5xx, and errors of operations ----------------------------------------------------------------


def unavailable() -> ApiError:
    """The service is away for a moment."""
    return ApiError("UNAVAILABLE", "The service is currently unavailable.")


def internal() -> ApiError:
    """The service failed without giving a reason."""
    return ApiError("INTERNAL", f"an internal error {eid()} has occurred")


def disk_full() -> ApiError:
    """The local cloud cannot save a change. Google has no such answer."""
    return ApiError(
        "INTERNAL",
        "The local cloud cannot save the change: the disk of this computer is full. Free some "
        "space, and send the request again.",
    )


def unimplemented(what: str) -> ApiError:
    """The local cloud does not have this method."""
    return ApiError("UNIMPLEMENTED", f"{what} is not implemented.")


def not_emulated(name: str) -> ApiError:
    """A method of Google's that the local cloud does not have. Google has no such answer."""
    return ApiError(
        "UNIMPLEMENTED",
        f"The local cloud has no {name}. Google has; nothing is known about what it would answer.",
    )


def stock_out(zone: str) -> ApiError:
    """The zone has no free capacity."""
    return ApiError(
        "RESOURCE_EXHAUSTED",
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud '
        f"TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) {eid()}",
    )


# Google has used either of them for a reservation that is used up.
RESERVATION_STATUSES = ("RESOURCE_EXHAUSTED", "FAILED_PRECONDITION")


def insufficient_reservation(status: str = RESERVATION_STATUSES[0]) -> ApiError:
    """The reservation is used up."""
    return ApiError(
        status,
        "Insufficient reserved capacity. Contact customer support to increase your reservation. "
        f"{eid()}",
    )


def not_in_time() -> ApiError:
    """A queued resource whose valid-until time has passed. The wording is ours."""
    return ApiError(
        "DEADLINE_EXCEEDED",
        "The resources could not be provisioned before the valid until time of the request.",
    )


def queued_internal() -> ApiError:
    """The error of a queued resource if the service gives no reason."""
    return ApiError("INTERNAL", "an internal error has occurred")


def cancelled() -> ApiError:
    """The operation was cancelled."""
    return ApiError("CANCELLED", "The operation was cancelled.")


# Errors of an operation on a node, by the kind of the fault that causes them; some depend on
# options of the fault.
OPERATION_FAILURES: dict[str, Callable[..., ApiError]] = {
    "stock_out": stock_out,
    "reservation_missing": lambda _zone: reservation_not_found(),
    "reservation_full": lambda _zone, **options: insufficient_reservation(**options),
    "operation_internal": lambda _zone: internal(),
}


NOT_THERE = (
    "<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)!!1</title>\n"
    "<p><b>404.</b> <ins>That's an error.</ins>\n<p>The requested URL <code>{}</code> was not "
    "found on this server.  <ins>That's all we know.</ins>\n</html>\n"
)
BAD_GATEWAY = (
    "<!DOCTYPE html>\n<html lang=en>\n<title>Error 502 (Server Error)!!1</title>\n"
    "<p><b>502.</b> <ins>That's an error.</ins>\n<p>The server encountered a temporary error and "
    "could not complete your request.<p>Please try again in 30 seconds.\n</html>\n"
)
