"""Preconditions of requests: the generation and the metageneration that an object must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...compute_errors import ComputeError

_NAMES = ("GenerationMatch", "GenerationNotMatch", "MetagenerationMatch", "MetagenerationNotMatch")
_HEADERS = {
    "x-goog-if-generation-match": "GenerationMatch",
    "x-goog-if-metageneration-match": "MetagenerationMatch",
}


@dataclass(frozen=True)
class Conditions:
    """What must hold, by the names of the JSON API without their prefix."""

    wanted: Mapping[str, str]

    def check(self, found: Mapping[str, Any] | None, reading: bool = False) -> None:
        """Raise unless all hold for a document; None: there is no live object.

        412 is the answer, or 304 to a reader whose copy is still the same.
        """
        for name, value in self.wanted.items():
            field = "metageneration" if name.startswith("Meta") else "generation"
            same = int(value) == int((found or {}).get(field, 0))
            if same == name.endswith("NotMatch"):
                raise not_modified() if reading and same else failed()


NONE = Conditions({})


def of_query(query: Mapping[str, str], prefix: str = "if") -> Conditions:
    """Return the preconditions in a query; those of a copy's source begin with `ifSource`."""
    return _checked({name: query[prefix + name] for name in _NAMES if prefix + name in query})


def of_headers(headers: Mapping[str, str]) -> Conditions:
    """Return the preconditions in headers of the XML API."""
    return _checked({name: headers[key] for key, name in _HEADERS.items() if key in headers})


def of_body(given: Mapping[str, Any]) -> Conditions:
    """Return the preconditions of one source of a composition."""
    return of_query({name: str(value) for name, value in given.items() if value is not None})


def _checked(wanted: dict[str, str]) -> Conditions:
    for name, value in wanted.items():
        if not value.lstrip("-").isdecimal():
            text = f"Invalid value for if{name}: '{value}' is no generation. Send a number."
            raise ComputeError(400, "invalid", text)
    return Conditions(wanted)


def failed() -> ComputeError:
    """A precondition does not hold."""
    text = "At least one of the pre-conditions you specified did not hold."
    return ComputeError(412, "conditionNotMet", text, "FAILED_PRECONDITION")


def not_modified() -> ComputeError:
    """The reader has the newest one."""
    return ComputeError(304, "notModified", "Not Modified")
