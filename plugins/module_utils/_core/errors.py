# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what an error of the Cloud TPU API means, and its remedy.

Only this module reads status codes, reasons and message texts. `error_table.py` has the signs by
which errors are recognised, and the remedy of each. All other code uses the class (or the `kind`)
of the exception, or its row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from .error_row import (
    ABORTED,
    ALREADY_EXISTS,
    BLANKS,
    CANCELLED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    Evidence,
    Row,
)
from .error_table import row_by_signs, row_for, row_named

_EID = re.compile(r"\s*\[EID:\s*(?P<eid>0x[0-9A-Fa-f]+|[^\]]*)\]")
_TAGS = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_PROJECT = re.compile(r"\bprojects?[/: ](?P<project>[a-z0-9](?:[-a-z0-9:.]*[a-z0-9])?)")
_ZONE = re.compile(r"\b(?:locations|zones)/(?P<zone>[a-z][-a-z0-9]*)")
_PERMISSION = re.compile(
    r"\b(?:Permission|Required) '(?P<permission>[\w.]+)' (?:denied|permission)"
)
_LIMIT = re.compile(r"\bLimit:? (?P<limit>[0-9]{1,18})\b")

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

# Compute and Storage name no status, but a reason.
_RPC_BY_REASON = {
    "alreadyExists": ALREADY_EXISTS,
    "conditionNotMet": FAILED_PRECONDITION,
    "quotaExceeded": RESOURCE_EXHAUSTED,
    "rateLimitExceeded": RESOURCE_EXHAUSTED,
    "resourceInUseByAnotherResource": FAILED_PRECONDITION,
    "resourceNotReady": ABORTED,
}
# The smallest of Google's roles that contains a permission, by the permission's first words.
_ROLES = {
    "compute.disks": "roles/compute.storageAdmin",
    "compute.firewalls": "roles/compute.securityAdmin",
    "compute.instance": "roles/compute.instanceAdmin.v1",
    "compute.resourcePolicies": "roles/compute.instanceAdmin.v1",
    "compute.": "roles/compute.admin",
    "serviceusage.": "roles/serviceusage.serviceUsageAdmin",
    "iam.": "roles/iam.serviceAccountAdmin",
    "resourcemanager.": "roles/resourcemanager.projectIamAdmin",
    "storage.": "roles/storage.admin",
}

Details = Sequence[Mapping[str, Any]]


class TpuError(Exception):
    """An error from the API, the connection to it, or the collection's own rules."""

    kind: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        case: str | None = None,
        http_status: int | None = None,
        rpc_code: int | None = None,
        reason: str | None = None,
        details: Details = (),
        eid: str | None = None,
        resource: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        # The key of its row in the table of errors.
        self.case = case or _usual_case(type(self))
        self.remedy = remedy or row_named(self.case).remedy.format_map(BLANKS)
        self.http_status = http_status
        self.rpc_code = rpc_code
        self.reason = reason
        self.details = [dict(detail) for detail in details]
        self.eid = eid
        self.resource = resource

    def __str__(self) -> str:
        if not self.remedy:
            return self.message
        end = "" if self.message.endswith((".", "!", "?")) else "."
        return f"{self.message}{end} {self.remedy}"

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


class QuotaExceeded(TpuError):
    """The project may not have more of this: repeating never helps."""

    kind = "quota"

    def __init__(self, message: str, *, limit: int | None = None, **rest: Any) -> None:
        flavour = "zero" if limit == 0 else ""
        super().__init__(message, **{"case": row_for((self.kind,), flavour).key, **rest})
        self.limit = limit


class RateLimited(TpuError):
    """Too many calls: wait and repeat."""

    kind = "rate_limit"

    def __init__(self, message: str, *, retry_after: float | None = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.retry_after = retry_after


class PermissionDenied(TpuError):
    """A permission is missing; `flavour` says which kind."""

    kind = "permission"

    def __init__(self, message: str, *, flavour: str = "other", **rest: Any) -> None:
        super().__init__(message, **{"case": row_for((self.kind,), flavour).key, **rest})
        self.flavour = flavour

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, with its flavour."""
        return {**super().to_dict(), "flavour": self.flavour}


class NotFound(TpuError):
    """The named resource does not exist."""

    kind = "not_found"


class AlreadyExists(TpuError):
    """The name is taken."""

    kind = "exists"


class NameTaken(TpuError):
    """Something of others has the name of what belongs to a slice."""

    kind = "name_taken"


class Busy(TpuError):
    """Another operation on the same resource is running: wait and repeat."""

    kind = "busy"


class BadRequest(TpuError):
    """The request itself is wrong: repeating never helps."""

    kind = "bad_request"


class Unavailable(TpuError):
    """The API did not answer properly: the request may or may not have succeeded."""

    kind = "unavailable"

    def __init__(self, message: str, *, retry_after: float | None = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.retry_after = retry_after


class CredentialsError(TpuError):
    """There are no credentials, they are refused, or they must not be sent to this endpoint."""

    kind = "credentials"


class OperationFailed(TpuError):
    """An operation ended with an error of no other kind."""

    kind = "operation_failed"


class Cancelled(OperationFailed):
    """A client cancelled the operation."""

    kind = "cancelled"


class NodeLost(TpuError):
    """A node reached a final state during the wait for another state."""

    kind = "node_lost"


class Refused(TpuError):
    """The collection's own rules forbid the request."""

    kind = "refused"


class WaitTimeout(TpuError):
    """A wait reached its limit."""

    kind = "timeout"

    def __init__(self, waited_for: str, last_state: str, seconds: float, **rest: Any) -> None:
        super().__init__(
            f"Waited {seconds:.0f} s for {waited_for}; last seen: {last_state or 'nothing'}.",
            **rest,
        )
        self.waited_for = waited_for
        self.last_state = last_state


# Errors that end without a change of the project's rights.
PASSING = (Unavailable, RateLimited, Busy, WaitTimeout, CredentialsError)


def from_response(
    status: int,
    body: bytes | str | Mapping[str, Any] | Sequence[Any] | None,
    headers: Mapping[str, str] | None = None,
    resource: str | None = None,
) -> TpuError:
    """Return the exception for an HTTP answer; the body may be anything."""
    error = _error_of(body)
    rpc_code = _RPC_BY_STATUS.get(str(error.get("status", "")).upper())
    if rpc_code is None:
        rpc_code = _RPC_BY_REASON.get(_first_reason(error))
    if rpc_code is None:
        rpc_code = _RPC_BY_HTTP.get(status, UNAVAILABLE if status >= 500 else INVALID_ARGUMENT)
    message = str(error.get("message") or "").strip() or f"The API answered HTTP {status}."
    retry_after = _retry_after(headers or {})
    return _classify(rpc_code, message, _details(error), status, resource, retry_after)


def from_status(status: Mapping[str, Any], resource: str | None = None) -> TpuError:
    """Return the exception for the google.rpc.Status of an operation."""
    code = status.get("code")
    rpc_code = code if isinstance(code, int) else _RPC_BY_STATUS.get(str(code), INTERNAL)
    message = str(status.get("message") or "").strip() or f"The operation failed, code {rpc_code}."
    return _classify(rpc_code, message, _details(status), None, resource, None)


def row_of(error: TpuError) -> Row:
    """Return the row of an error, whatever its origin."""
    return row_named(error.case)


def _usual_case(cls: type[TpuError]) -> str:
    """Return the row of an error if only its class is known."""
    return row_for(str(vars(parent).get("kind", "")) for parent in cls.__mro__).key


def _classify(
    rpc_code: int,
    text: str,
    details: list[dict[str, Any]],
    http_status: int | None,
    resource: str | None,
    retry_after: float | None,
) -> TpuError:
    """Return the exception of the row whose signs match an answer."""
    message, eid = _without_eid(text)
    info = _detail(details, "ErrorInfo")
    reason = str(info["reason"]) if info.get("reason") else None
    limit = _limit(message, details)
    row = row_by_signs(
        Evidence(
            code=rpc_code,
            message=message,
            http=http_status,
            reason=reason or "",
            details=frozenset(map(_type_of, details)),
            limit=limit,
        )
    )
    return _CLASS_OF[row.kind](
        message,
        case=row.key,
        remedy=row.remedy.format_map(_blanks(message, info, resource)),
        http_status=http_status,
        rpc_code=rpc_code,
        reason=reason,
        details=details,
        eid=eid,
        resource=resource,
        **_extras(row, limit, _retry_delay(details) if retry_after is None else retry_after),
    )


def _extras(row: Row, limit: int | None, retry_after: float | None) -> dict[str, Any]:
    """Return the attributes that only some exceptions have."""
    if row.kind == "quota":
        return {"limit": limit}
    if row.kind == "permission":
        return {"flavour": row.flavour}
    if row.kind in ("rate_limit", "unavailable"):
        return {"retry_after": retry_after}
    return {}


def _family(cls: type[TpuError]) -> Iterator[type[TpuError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _family(child)


_CLASS_OF = {cls.kind: cls for cls in _family(TpuError)}


def _blanks(message: str, info: Mapping[str, Any], resource: str | None) -> dict[str, str]:
    """Return the parts of a remedy that depend on the answer."""
    metadata = info.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    # The caller's project id is easier to recognise than the project's number.
    places = [text for text in (resource, named.get("consumer"), message) if isinstance(text, str)]
    found = {
        "project": _first(_PROJECT, places),
        "zone": _first(_ZONE, places),
        "service": str(named.get("service") or ""),
        "role": _role(message),
    }
    return {**BLANKS, **{name: text for name, text in found.items() if text}}


def _role(message: str) -> str:
    permission = _first(_PERMISSION, [message]) or "tpu.nodes.list"
    for beginning, role in _ROLES.items():
        if permission.startswith(beginning):
            return role
    reads = permission.rpartition(".")[2] in ("get", "list")
    return "roles/tpu.viewer" if reads else "roles/tpu.admin"


def _first(pattern: re.Pattern[str], texts: Sequence[str]) -> str:
    for text in texts:
        match = pattern.search(text)
        if match:
            return match[1]
    return ""


def _limit(message: str, details: Details) -> int | None:
    """Return the smallest limit that an answer names, because none may be exceeded."""
    violations = _detail(details, "QuotaFailure").get("violations")
    texts = [message]
    for violation in violations if isinstance(violations, list) else []:
        if isinstance(violation, Mapping):
            texts.append(str(violation.get("description") or ""))
    limits = [int(found) for text in texts for found in _LIMIT.findall(text)]
    return min(limits, default=None)


def _error_of(body: bytes | str | Mapping[str, Any] | Sequence[Any] | None) -> Mapping[str, Any]:
    """Return the error object of a body, or one built from the text of a page."""
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


def _first_reason(error: Mapping[str, Any]) -> str:
    errors = error.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    return str(first.get("reason") or "") if isinstance(first, Mapping) else ""


def _details(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = error.get("details")
    if not isinstance(details, list):
        return []
    return [dict(detail) for detail in details if isinstance(detail, Mapping)]


def _detail(details: Details, type_name: str) -> Mapping[str, Any]:
    return next((detail for detail in details if _type_of(detail) == type_name), {})


def _type_of(detail: Mapping[str, Any]) -> str:
    """Return the last word of a detail's type: ErrorInfo, QuotaFailure and the like."""
    return str(detail.get("@type", "")).rpartition(".")[2]


def _without_eid(message: str) -> tuple[str, str | None]:
    match = _EID.search(message)
    return (_EID.sub("", message).strip(), match["eid"]) if match else (message, None)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait that the answer requests, perhaps as a point in time."""
    named = {name.lower(): value for name, value in headers.items()}
    value = named.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        # By the server's clock, not this computer's.
        pause = parsedate_to_datetime(value) - parsedate_to_datetime(named.get("date", ""))
    except (TypeError, ValueError, IndexError):
        return None
    return max(0.0, pause.total_seconds())


def _retry_delay(details: Details) -> float | None:
    """Return the same from the details."""
    delay = str(_detail(details, "RetryInfo").get("retryDelay") or "")
    try:
        return max(0.0, float(delay[:-1])) if delay.endswith("s") else None
    except ValueError:
        return None
