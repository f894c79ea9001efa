"""Error answers of the Compute and Storage APIs, in their words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import TYPE_URL, ApiError


class ComputeError(ApiError):
    """A refusal in the shape of the Compute and Storage APIs, which name no status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        status: str = "",
        details: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(status or "INVALID_ARGUMENT", message, details)
        self.code = code
        self.reason = reason

    @property
    def http(self) -> int:
        """Return the HTTP status code."""
        return self.code

    def body(self) -> dict[str, Any]:
        """Return the body of an HTTP answer."""
        one = {"message": self.message, "domain": "global", "reason": self.reason}
        error: dict[str, Any] = {"code": self.code, "message": self.message, "errors": [one]}
        if self.details:
            error |= {"status": self.status, "details": self.details}
        return {"error": error}


def not_found(resource: str) -> ComputeError:
    """There is no such resource."""
    return ComputeError(404, "notFound", f"The resource '{resource}' was not found", "NOT_FOUND")


def already_exists(resource: str) -> ComputeError:
    """The name is taken."""
    text = f"The resource '{resource}' already exists"
    return ComputeError(409, "alreadyExists", text, "ALREADY_EXISTS")


def in_use(what: str, resource: str, user: str) -> ComputeError:
    """Something else needs it."""
    text = f"The {what} resource '{resource}' is already being used by '{user}'"
    return ComputeError(400, "resourceInUseByAnotherResource", text, "FAILED_PRECONDITION")


def invalid(field: str, value: Any, why: str) -> ComputeError:
    """A value of the resource in a request that Compute does not accept."""
    return invalid_at(f"resource.{field}", value, why)


def invalid_at(path: str, value: Any, why: str) -> ComputeError:
    """A value that Compute does not accept, by the whole path of its field."""
    return ComputeError(400, "invalid", f"Invalid value for field '{path}': '{value}'. {why}")


def too_large(path: str, most: int, size: int) -> ComputeError:
    """A text that is too long; Google counts its bytes as characters."""
    text = f"Value for field '{path}' is too large: maximum size {most} character(s)"
    return ComputeError(400, "invalid", f"{text}; actual size {size}.")


def stale(what: str) -> ComputeError:
    """The content has changed meanwhile: the fingerprint does not match."""
    text = f"{what} fingerprint either invalid or resource labels have changed"
    if what in ("metadata", "tags"):
        text = f"Supplied fingerprint does not match current {what} fingerprint."
    return ComputeError(412, "conditionNotMet", text, "FAILED_PRECONDITION")


def concurrent_policy() -> ApiError:
    """The policy has changed since it was read."""
    return ApiError(
        "ABORTED",
        "There were concurrent policy changes. Please retry the whole read-modify-write with "
        "exponential backoff.",
    )


# Errors of operations ---------------------------------------------------------------------------

_HELP = "https://cloud.google.com/compute/docs/resource-error"
# The reason of HTTP's refusals, by the name of the status.
_REASONS = {
    "INVALID_ARGUMENT": (400, "invalid"),
    "FAILED_PRECONDITION": (400, "failedPrecondition"),
    "UNAUTHENTICATED": (401, "authError"),
    "PERMISSION_DENIED": (403, "forbidden"),
    "NOT_FOUND": (404, "notFound"),
    "ALREADY_EXISTS": (409, "alreadyExists"),
    "ABORTED": (412, "conditionNotMet"),
    "RESOURCE_EXHAUSTED": (403, "rateLimitExceeded"),
    "INTERNAL": (500, "backendError"),
    "UNAVAILABLE": (503, "backendError"),
    "UNIMPLEMENTED": (501, "notImplemented"),
}


def as_compute(error: ApiError) -> ApiError:
    """Return a refusal in the shape of the Compute API."""
    if isinstance(error, ComputeError) or error.status not in _REASONS:
        return error
    code, reason = _REASONS[error.status]
    refusal = ComputeError(code, reason, error.message, error.status, error.details)
    refusal.headers = error.headers
    return refusal


def bad(message: str, reason: str = "invalid") -> ComputeError:
    """A refusal in words that say everything."""
    return ComputeError(400, reason, message)


def not_ready(resource: str) -> ComputeError:
    """Another operation on it is not over."""
    text = f"The resource '{resource}' is not ready"
    return ComputeError(400, "resourceNotReady", text, "FAILED_PRECONDITION")


def rate_limited(number: str, retry_after: Any) -> ComputeError:
    """Too many requests in a minute."""
    text = (
        "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service "
        f"'compute.googleapis.com' for consumer 'project_number:{number}'."
    )
    detail = {
        "@type": TYPE_URL + "ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "domain": "googleapis.com",
        "metadata": {"service": "compute.googleapis.com"},
    }
    error = ComputeError(429, "rateLimitExceeded", text, "RESOURCE_EXHAUSTED", [detail])
    if retry_after is not None:
        error.headers = {"Retry-After": str(retry_after)}
    return error


def too_many(service: str, retry_after: Any) -> ComputeError:
    """Too many requests for another of Google's APIs."""
    text = (
        f"The total number of requests to {service} exceeds the rate limit. Slow down, and retry."
    )
    error = ComputeError(429, "rateLimitExceeded", text, "RESOURCE_EXHAUSTED")
    error.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return error


def denied(permission: str, resource: str) -> ComputeError:
    """A permission is missing."""
    text = f"Required '{permission}' permission for '{resource}'"
    return ComputeError(403, "forbidden", text, "PERMISSION_DENIED")


def unavailable() -> ComputeError:
    """Compute Engine does not work now."""
    text = "Internal error. Please try again or contact Google Support."
    return ComputeError(503, "backendError", text, "UNAVAILABLE")


def failed(
    code: str, message: str, http: tuple[int, str], status: str = "", **more: Any
) -> ApiError:
    """Return the error of an operation; `more` are further fields of its entry."""
    number, words = http
    detail = {"code": code, "httpErrorStatusCode": number, "httpErrorMessage": words, **more}
    return ApiError(status or "INTERNAL", message, [{"compute": detail}])


def stock_out(zone: str, machine_type: str, tier: str, details: str = "") -> ApiError:
    """The zone lacks capacity; the other code for it ends its message with details."""
    text = f"The zone '{zone}' does not have enough resources available to fulfill the request."
    reason = "stockout" if tier == "spot" else "resource_availability"
    more = {"vmType": machine_type, "zone": zone.rpartition("/")[2], "zonesAvailable": ""}
    return failed(
        f"ZONE_RESOURCE_POOL_EXHAUSTED{'_WITH_DETAILS' if details else ''}",
        f"{text}  {details or 'Try a different zone, or try again later.'}",
        (503, "SERVICE UNAVAILABLE"),
        "RESOURCE_EXHAUSTED",
        errorDetails=[
            {"help": {"links": [{"description": "Troubleshooting documentation", "url": _HELP}]}},
            {"localizedMessage": {"locale": "en-US", "message": text}},
            {
                "errorInfo": {
                    "domain": "compute.googleapis.com",
                    "reason": reason,
                    "metadatas": more,
                }
            },
        ],
    )


def quota_exceeded(name: str, metric: str, limit: float, region: str, family: str = "") -> ApiError:
    """The project's quota in the region would be exceeded."""
    dimensions = {"region": region, **({"tpu_family": family} if family else {})}
    return failed(
        "QUOTA_EXCEEDED",
        f"Quota '{metric.upper()}' exceeded.  Limit: {limit:.1f} in region {region}.",
        (403, "FORBIDDEN"),
        "RESOURCE_EXHAUSTED",
        errorDetails=[
            {
                "quotaInfo": {
                    "metricName": f"compute.googleapis.com/{metric}",
                    "limitName": name,
                    "dimensions": dimensions,
                    "limit": limit,
                }
            }
        ],
    )


def internal_failure() -> ApiError:
    """Something went wrong at Google: with TPUs often a lack of capacity."""
    text = (
        "Internal error. Please try again or contact Google Support. (Code: '-4608021453206485163')"
    )
    return failed("INTERNAL_ERROR", text, (500, "INTERNAL SERVER ERROR"))


def no_reservation(zone: str) -> ApiError:
    """There is no such reservation."""
    text = f"Specified reservation in '{zone}' does not exist."
    return failed("RESOURCE_NOT_FOUND", text, (404, "NOT FOUND"), "NOT_FOUND")


def full_reservation(zone: str) -> ApiError:
    """The reservation is used up."""
    text = f"Specified reservation in '{zone}' does not have available resources for the request."
    said = (412, "PRECONDITION FAILED")
    return failed("RESERVATION_CAPACITY_EXCEEDED", text, said, "FAILED_PRECONDITION")


def not_reserved() -> ApiError:
    """Only hosts of reserved instances can be reported."""
    text = "Reporting a host as faulty needs an instance that is bound to a reservation."
    code = "INSTANCES_WITHOUT_RESERVATION_NOT_SUPPORTED"
    return failed(code, text, (400, "BAD REQUEST"), "FAILED_PRECONDITION")


# Errors of an operation on an instance, by the kind of the fault that causes them; each gets the
# zone, the machine type and the tier.
FAILURES: dict[str, Callable[[str, str, str], ApiError]] = {
    "stock_out": stock_out,
    "stock_out_with_details": lambda zone, kind, tier: stock_out(
        zone, kind, tier, "'(resource type:compute)'."
    ),
    "reservation_missing": lambda zone, _type, _tier: no_reservation(zone),
    "reservation_full": lambda zone, _type, _tier: full_reservation(zone),
    "operation_internal": lambda _zone, _type, _tier: internal_failure(),
}
