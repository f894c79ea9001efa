# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the table of errors. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

# google.rpc.Code, the numbers that operations carry.
CANCELLED, UNKNOWN, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS = 1, 2, 3, 5, 6
PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED = 7, 8, 9, 10
UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 12, 13, 14, 16
DEADLINE_EXCEEDED = 4

# The parts of a remedy that depend on the answer, and their defaults.
BLANKS = {
    "project": "<project>",
    "role": "<role>",
    "service": "tpu.googleapis.com",
    "zone": "<zone>",
}


class Reaction(Enum):
    """The reaction to an error, for a slice with several candidate places."""

    # No capacity here now: the next candidate immediately, here again later.
    NEXT_PLACE = "next_place"
    # The project's quota is used up: the next candidate, here again later.
    HOLD = "hold"
    # This place can never succeed: the next candidate.
    NEVER_HERE = "never_here"
    # The same again after a pause.
    WAIT = "wait"
    # The request may have succeeded, or the state has changed: read the project first.
    LOOK = "look"
    # Nothing will work until a person acts.
    STOP = "stop"


@dataclass(frozen=True)
class Evidence:
    """The parts of an answer that decisions use; the message has no event id."""

    code: int
    message: str
    http: int | None = None
    reason: str = ""
    details: frozenset[str] = frozenset()
    limit: int | None = None


@dataclass(frozen=True)
class Sign:
    """The signs that identify a row: all given ones must match.

    Messages are recognised by a few words, never by the whole text, because texts change.
    """

    codes: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    detail: str = ""
    says: str = ""
    http: tuple[int, ...] = ()
    limit: int | None = None
    # True: only answers to requests. False: only errors of operations.
    answer: bool | None = None

    @property
    def weight(self) -> tuple[bool, bool, bool, bool]:
        """Return how specific it is: more specific signs are tried first."""
        return (
            bool(self.reasons or self.detail or self.says or self.http),
            self.limit is not None,
            bool(self.codes),
            self.answer is not None,
        )

    def fits(self, evidence: Evidence) -> bool:
        """Return whether an answer carries this sign."""
        return (
            (not self.codes or evidence.code in self.codes)
            and (not self.reasons or evidence.reason in self.reasons)
            and (not self.detail or self.detail in evidence.details)
            and (not self.says or re.search(self.says, evidence.message) is not None)
            and (not self.http or evidence.http in self.http)
            and (self.limit is None or evidence.limit == self.limit)
            and (self.answer is None or self.answer is (evidence.http is not None))
        )


@dataclass(frozen=True)
class Row:
    """One error: its name, meaning, reaction and remedy."""

    key: str
    kind: str
    short: str
    means: str
    does: str
    remedy: str
    reaction: Reaction
    flavour: str = ""
    signs: tuple[Sign, ...] = ()
