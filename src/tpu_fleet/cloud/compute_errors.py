"""Error answers of the Compute and Storage APIs, in their words."""

from __future__ import annotations

from typing import Any

from .errors import ApiError


class ComputeError(ApiError):
    """A refusal in the shape of the Compute and Storage APIs, which name no status."""

    def __init__(self, code: int, reason: str, message: str, status: str = "") -> None:
        super().__init__(status or "INVALID_ARGUMENT", message)
        self.code = code
        self.reason = reason

    @property
    def http(self) -> int:
        """Return the HTTP status code."""
        return self.code

    def body(self) -> dict[str, Any]:
        """Return the body of an HTTP answer."""
        one = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.code, "message": self.message, "errors": [one]}}


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
    """A value that Compute does not accept."""
    return ComputeError(
        400, "invalid", f"Invalid value for field 'resource.{field}': '{value}'. {why}"
    )


def stale(what: str) -> ComputeError:
    """The content has changed meanwhile: the fingerprint does not match."""
    text = f"{what} fingerprint either invalid or resource labels have changed"
    if what == "metadata":
        text = "Supplied fingerprint does not match current metadata fingerprint."
    return ComputeError(412, "conditionNotMet", text, "FAILED_PRECONDITION")


def concurrent_policy() -> ApiError:
    """The policy has changed since it was read."""
    return ApiError(
        "ABORTED",
        "There were concurrent policy changes. Please retry the whole read-modify-write with "
        "exponential backoff.",
    )
