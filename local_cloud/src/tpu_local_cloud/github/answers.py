"""GitHub's answers and errors, verbatim."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

DOCS = "https://docs.github.com/rest"


@dataclass
class Answer:
    """One answer."""

    status: int
    data: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        """Return it as bytes; GitHub's are compact."""
        if self.data is None:
            return b""
        return json.dumps(self.data, separators=(",", ":"), ensure_ascii=False).encode()


class Refusal(Exception):
    """A request that GitHub refuses."""

    def __init__(self, status: int, message: str, page: str = "", **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.headers: dict[str, str] = more.pop("headers", {})
        self.data = {
            "message": message,
            **more,
            "documentation_url": DOCS + page,
            "status": str(status),
        }

    def answer(self) -> Answer:
        """Return it as an answer."""
        return Answer(self.status, self.data, self.headers)


def requires_authentication(page: str) -> Refusal:
    """There is no token."""
    return Refusal(401, "Requires authentication", page)


def bad_credentials() -> Refusal:
    """Return the refusal of an invalid or expired token."""
    return Refusal(401, "Bad credentials")


def not_accessible(page: str) -> Refusal:
    """A fine-grained token lacks a permission."""
    return Refusal(403, "Resource not accessible by personal access token", page)


def not_found(page: str) -> Refusal:
    """Not found, or hidden from a classic token without the scope."""
    return Refusal(404, "Not Found", page)


def invalid(page: str, field_name: str, code: str, message: str = "") -> Refusal:
    """A value that GitHub does not accept."""
    error = {"resource": "PublicKey", "code": code, "field": field_name}
    if message:
        error["message"] = message
    return Refusal(422, "Validation Failed", page, errors=[error])


def problems_parsing() -> Refusal:
    """The body is not JSON."""
    return Refusal(400, "Problems parsing JSON")


def rate_limited(user: int, reset: int) -> Refusal:
    """Too many requests in an hour."""
    return Refusal(
        403,
        f"API rate limit exceeded for user ID {user}.",
        "/overview/rate-limits-for-the-rest-api",
        headers={
            "X-RateLimit-Limit": "5000",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(reset),
        },
    )
