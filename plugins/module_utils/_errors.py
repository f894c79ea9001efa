# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what an error of the Cloud TPU API means, and what mends it.

This is the only place that reads status codes, reasons and message texts. Everything else asks
for the class (or the `kind`) of the exception.

The decision rests on the code, the structured details and the first words of a message, never on
a whole text: texts change, and they carry event ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

_EID = re.compile(r"\s*\[EID:\s*(?P<eid>0x[0-9A-Fa-f]+|[^\]]*)\]")
_TAGS = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_PROJECT = re.compile(r"\bprojects?[/: ](?P<project>[a-z0-9](?:[-a-z0-9:.]*[a-z0-9])?)")
_PERMISSION = re.compile(r"Permission '(?P<permission>[\w.]+)' denied")
_LIMIT = re.compile(r"\bLimit:? (?P<limit>\d+)\b")

# google.rpc.Code, the numbers that operations carry.
CANCELLED, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS = 1, 3, 5, 6
PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED = 7, 8, 9, 10
UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 12, 13, 14, 16

_RPC_BY_STATUS = {
    "CANCELLED": CANCELLED,
    "INVALID_ARGUMENT": INVALID_ARGUMENT,
    "OUT_OF_RANGE": INVALID_ARGUMENT,
    "DEADLINE_EXCEEDED": UNAVAILABLE,
    "NOT_FOUND": NOT_FOUND,
    "ALREADY_EXISTS": ALREADY_EXISTS,
    "PERMISSION_DENIED": PERMISSION_DENIED,
    "RESOURCE_EXHAUSTED": RESOURCE_EXHAUSTED,
    "FAILED_PRECONDITION": FAILED_PRECONDITION,
    "ABORTED": ABORTED,
    "UNIMPLEMENTED": UNIMPLEMENTED,
    "INTERNAL": INTERNAL,
    "UNAVAILABLE": UNAVAILABLE,
    "UNAUTHENTICATED": UNAUTHENTICATED,
}
_RPC_BY_HTTP = {
    400: INVALID_ARGUMENT,
    401: UNAUTHENTICATED,
    403: PERMISSION_DENIED,
    404: NOT_FOUND,
    408: UNAVAILABLE,
    409: ABORTED,
    412: FAILED_PRECONDITION,
    429: RESOURCE_EXHAUSTED,
    499: CANCELLED,
    501: UNIMPLEMENTED,
}

Details = Sequence[Mapping[str, Any]]


class TpuError(Exception):
    """Something that the API, the way to it, or our own rules refused."""

    kind: ClassVar[str] = "error"
    default_remedy: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        http_status: int | None = None,
        rpc_code: int | None = None,
        reason: str | None = None,
        details: Details = (),
        eid: str | None = None,
        resource: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy or self.default_remedy
        self.http_status = http_status
        self.rpc_code = rpc_code
        self.reason = reason
        self.details = [dict(detail) for detail in details]
        self.eid = eid
        self.resource = resource

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}" if self.remedy else self.message

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, the absent parts left out."""
        data = {
            "kind": self.kind,
            "message": self.message,
            "remedy": self.remedy,
            "http_status": self.http_status,
            "rpc_code": self.rpc_code,
            "reason": self.reason,
            "details": self.details,
            "eid": self.eid,
            "resource": self.resource,
        }
        return {key: value for key, value in data.items() if value not in (None, [])}


class StockOut(TpuError):
    """No hardware is free: the same request may succeed later, or in another zone."""

    kind = "stock_out"
    default_remedy = "Try again later, in another zone, or queue the request."


class QuotaExceeded(TpuError):
    """The project may not hold more of this: repeating never helps."""

    kind = "quota"

    def __init__(self, message: str, *, limit: int | None = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.limit = limit


class RateLimited(TpuError):
    """Too many calls: wait and repeat."""

    kind = "rate_limit"
    default_remedy = "Wait a minute and try again."

    def __init__(self, message: str, *, retry_after: float | None = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.retry_after = retry_after


class PermissionDenied(TpuError):
    """The caller may not; `flavour` says whose door is closed."""

    kind = "permission"

    def __init__(self, message: str, *, flavour: str = "other", **rest: Any) -> None:
        super().__init__(message, **rest)
        self.flavour = flavour

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, with its flavour."""
        return {**super().to_dict(), "flavour": self.flavour}


class NotFound(TpuError):
    """What was named is not there."""

    kind = "not_found"


class AlreadyExists(TpuError):
    """The name is taken."""

    kind = "exists"
    default_remedy = "Choose another name, or delete what has this one."


class Busy(TpuError):
    """Another operation runs on the same resource: wait and repeat."""

    kind = "busy"
    default_remedy = "Wait until the running operation has ended and try again."


class BadRequest(TpuError):
    """The request itself is wrong: repeating never helps."""

    kind = "bad_request"


class Unavailable(TpuError):
    """The API did not answer properly: what was asked may or may not have happened."""

    kind = "unavailable"
    default_remedy = "Check the endpoint and the network, then try again."

    def __init__(self, message: str, *, retry_after: float | None = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.retry_after = retry_after


class CredentialsError(TpuError):
    """There are no credentials, they are not accepted, or they must not go where they would."""

    kind = "credentials"
    default_remedy = "Run: gcloud auth application-default login"


class OperationFailed(TpuError):
    """An operation ended with an error of no other kind."""

    kind = "operation_failed"


class Cancelled(OperationFailed):
    """Somebody cancelled the operation."""

    kind = "cancelled"


class NodeLost(TpuError):
    """A node reached a state that it never leaves, while we waited for another."""

    kind = "node_lost"


class Refused(TpuError):
    """Our own rules forbid what was asked."""

    kind = "refused"


class WaitTimeout(TpuError):
    """A wait reached its limit."""

    kind = "timeout"

    def __init__(self, waited_for: str, last_state: str, seconds: float, **rest: Any) -> None:
        super().__init__(
            f"Waited {seconds:.0f} s for {waited_for}; last seen: {last_state or 'nothing'}.",
            **{"remedy": "Raise wait_timeout, or look at the node's state and health.", **rest},
        )
        self.waited_for = waited_for
        self.last_state = last_state


def from_response(
    status: int,
    body: bytes | str | Mapping[str, Any] | Sequence[Any] | None,
    headers: Mapping[str, str] | None = None,
    resource: str | None = None,
) -> TpuError:
    """Return the exception that an HTTP answer stands for; the body may be anything."""
    error = _error_of(body)
    rpc_code = _RPC_BY_STATUS.get(str(error.get("status", "")).upper())
    if rpc_code is None:
        rpc_code = _RPC_BY_HTTP.get(status, UNAVAILABLE if status >= 500 else INVALID_ARGUMENT)
    message = str(error.get("message") or "").strip() or f"The API answered HTTP {status}."
    retry_after = _retry_after(headers or {})
    return _classify(rpc_code, message, _details(error), status, resource, retry_after)


def from_status(status: Mapping[str, Any], resource: str | None = None) -> TpuError:
    """Return the exception that the google.rpc.Status of an operation stands for."""
    code = status.get("code")
    rpc_code = code if isinstance(code, int) else _RPC_BY_STATUS.get(str(code), INTERNAL)
    message = str(status.get("message") or "").strip() or f"The operation failed, code {rpc_code}."
    return _classify(rpc_code, message, _details(status), None, resource, None)


def _classify(
    rpc_code: int,
    text: str,
    details: list[dict[str, Any]],
    http_status: int | None,
    resource: str | None,
    retry_after: float | None,
) -> TpuError:
    message, eid = _without_eid(text)
    info = _detail(details, "google.rpc.ErrorInfo")
    common: dict[str, Any] = {
        "http_status": http_status,
        "rpc_code": rpc_code,
        "reason": str(info["reason"]) if info.get("reason") else None,
        "details": details,
        "eid": eid,
        "resource": resource,
    }
    if rpc_code == RESOURCE_EXHAUSTED:
        return _exhausted(message, info, common, retry_after)
    if rpc_code == PERMISSION_DENIED:
        return _permission(message, info, common)
    if rpc_code == UNAUTHENTICATED:
        return CredentialsError(message, **common)
    if rpc_code == NOT_FOUND:
        return NotFound(message, remedy=_not_found_remedy(message), **common)
    if rpc_code == ALREADY_EXISTS:
        return AlreadyExists(message, **common)
    if rpc_code == ABORTED:
        return Busy(message, **common)
    if rpc_code == FAILED_PRECONDITION and message.startswith("Insufficient reserved capacity"):
        return StockOut(message, remedy=_RESERVED_REMEDY, **common)
    if rpc_code in (INVALID_ARGUMENT, FAILED_PRECONDITION, UNIMPLEMENTED):
        return BadRequest(message, remedy=_bad_request_remedy(message), **common)
    if rpc_code == CANCELLED:
        return Cancelled(message, **common)
    if http_status is None and rpc_code != UNAVAILABLE:
        return OperationFailed(message, **common)
    return Unavailable(message, retry_after=retry_after, **common)


_RESERVED_REMEDY = (
    "This type is only given against a reservation here: use one, or another zone or tier."
)


def _exhausted(
    message: str, info: Mapping[str, Any], common: dict[str, Any], retry_after: float | None
) -> TpuError:
    """Tell capacity, quota and rate apart: they share one code."""
    quota = _detail(common["details"], "google.rpc.QuotaFailure")
    if quota or message.startswith("Quota limit "):
        match = _LIMIT.search(message)
        limit = int(match["limit"]) if match else None
        return QuotaExceeded(message, limit=limit, remedy=_quota_remedy(limit), **common)
    if message.startswith("Insufficient reserved capacity"):
        return StockOut(message, remedy=_RESERVED_REMEDY, **common)
    is_rate = info.get("reason") == "RATE_LIMIT_EXCEEDED"
    if is_rate or (common["http_status"] and not message.startswith("There is no more capacity")):
        return RateLimited(message, retry_after=retry_after, **common)
    return StockOut(message, **common)


def _quota_remedy(limit: int | None) -> str:
    if limit == 0:
        return (
            "The project has no quota for this type here, so it will never succeed: use the "
            "zones, types and tiers of the grant, or ask for quota."
        )
    return (
        "Delete what the project does not need (preempted nodes and ended queued resources count "
        "too), or ask for more quota."
    )


_PROJECT_REASONS = {"CONSUMER_INVALID", "USER_PROJECT_DENIED", "PROJECT_INVALID"}
_PROJECT_TEXTS = ("Permission denied on resource project", "Project '", "Project not found")
_QUEUE_TEXT = "User does not have permission to submit requests"
_LOCATION_TEXTS = ("Permission denied on 'locations/", "Location ")


def _permission(message: str, info: Mapping[str, Any], common: dict[str, Any]) -> PermissionDenied:
    reason = info.get("reason")
    project = _project(message, info, common["resource"])
    if reason == "SERVICE_DISABLED" or " API has not been used in project " in message:
        service = _metadata(info).get("service", "tpu.googleapis.com")
        remedy = f"Run: gcloud services enable {service} --project={project}"
        return PermissionDenied(message, flavour="api_disabled", remedy=remedy, **common)
    if reason == "BILLING_DISABLED":
        remedy = (
            f"Run: gcloud billing projects link {project} --billing-account=<account> "
            "(gcloud billing accounts list shows the accounts)."
        )
        return PermissionDenied(message, flavour="billing", remedy=remedy, **common)
    if message.startswith(_QUEUE_TEXT):
        remedy = (
            "This type is not offered to the project in this zone, repeating never helps: use the "
            "zones, types and tiers of the grant."
        )
        return PermissionDenied(message, flavour="queue", remedy=remedy, **common)
    if reason == "LOCATION_POLICY_VIOLATED" or message.startswith(_LOCATION_TEXTS):
        remedy = (
            "Check the zone's name; a zone may also be closed to the project. "
            f"Run: gcloud compute tpus locations list --project={project}"
        )
        return PermissionDenied(message, flavour="location", remedy=remedy, **common)
    if reason in _PROJECT_REASONS or message.startswith(_PROJECT_TEXTS):
        remedy = (
            "Check the project's id (option project, GOOGLE_CLOUD_PROJECT) and the account. "
            "Run: gcloud projects list"
        )
        return PermissionDenied(message, flavour="project", remedy=remedy, **common)
    match = _PERMISSION.search(message)
    if reason == "IAM_PERMISSION_DENIED" or match:
        permission = match["permission"] if match else "tpu.nodes.list"
        reads = permission.rsplit(".", 1)[-1] in ("get", "list")
        role = "roles/tpu.viewer" if reads else "roles/tpu.admin"
        # A project that does not exist looks just the same to those who may not see it.
        remedy = (
            f"If {project} is the right project, run: gcloud projects add-iam-policy-binding "
            f"{project} --role={role} --member=user:<account>"
        )
        return PermissionDenied(message, flavour="iam", remedy=remedy, **common)
    remedy = f"Check which account is used and which roles it has in project {project}."
    return PermissionDenied(message, remedy=remedy, **common)


def _not_found_remedy(message: str) -> str | None:
    if message.startswith("Reservation not found"):
        return _RESERVED_REMEDY
    return None


def _bad_request_remedy(message: str) -> str | None:
    if "accelerator" in message and ("not found in zone" in message or "not be found" in message):
        return (
            "Check the accelerator type and the zone. "
            "Run: gcloud compute tpus accelerator-types list --zone=<zone>"
        )
    if "requested zone" in message:
        return "Check the zone's name. Run: gcloud compute tpus locations list"
    if "while in state PREEMPTED" in message or "while in state TERMINATED" in message:
        return "The node is lost: delete it and create it again (recreate: true)."
    return None


def _error_of(body: bytes | str | Mapping[str, Any] | Sequence[Any] | None) -> Mapping[str, Any]:
    """Return the error object of a body, or one made of the text of a page."""
    data: Any = body
    if isinstance(body, (bytes, str)):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        try:
            data = json.loads(text)
        except ValueError:
            plain = " ".join(_TAGS.sub(" ", text).split())
            return {"message": plain[:300]}
    if isinstance(data, list) and data:
        data = data[0]
    error = data.get("error") if isinstance(data, Mapping) else None
    if isinstance(error, str):
        return {"message": str(data.get("error_description") or error)}
    return error if isinstance(error, Mapping) else {}


def _details(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = error.get("details")
    if not isinstance(details, list):
        return []
    return [dict(detail) for detail in details if isinstance(detail, Mapping)]


def _detail(details: Details, type_name: str) -> Mapping[str, Any]:
    for detail in details:
        if str(detail.get("@type", "")).rpartition("/")[2] == type_name:
            return detail
    return {}


def _metadata(info: Mapping[str, Any]) -> Mapping[str, str]:
    metadata = info.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _project(message: str, info: Mapping[str, Any], resource: str | None) -> str:
    # What the caller wrote is easier to recognise than the project's number.
    for text in (resource, _metadata(info).get("consumer"), message):
        match = _PROJECT.search(text or "")
        if match:
            return match["project"]
    return "<project>"


def _without_eid(message: str) -> tuple[str, str | None]:
    match = _EID.search(message)
    return (_EID.sub("", message).strip(), match["eid"]) if match else (message, None)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    for name, value in headers.items():
        if name.lower() == "retry-after":
            try:
                return max(0.0, float(value))
            except ValueError:
                return None
    return None
