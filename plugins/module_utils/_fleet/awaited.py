# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which slices an apply of the fleet waits for. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .._core.errors import BadRequest
from .._schema.keys import did_you_mean
from .plan_terms import Plan

WORDS = ("all", "any", "next", "none")


@dataclass(frozen=True)
class Awaited:
    """What `fleet_wait` says: one of the words, or else the names of slices."""

    word: str = "all"
    names: frozenset[str] = frozenset()

    @property
    def waits(self) -> bool:
        """Return whether anything is waited for."""
        return self.word != "none"

    @property
    def strict(self) -> bool:
        """Return whether a slice that is waited for and missing is an error."""
        return self.word not in ("any", "next", "none")

    def waits_for(self, name: str) -> bool:
        """Return whether a slice is waited for."""
        return not self.names or name in self.names

    def enough(self, plan: Plan, one_more: bool) -> bool:
        """Return whether the wait is over; one_more is whether a slice became ready since."""
        if plan.done or (one_more and self.word == "next"):
            return True
        named = [status for status in plan.statuses if status.slice in self.names]
        return bool(named) and all(status.settled for status in named)


ALL = Awaited()


def awaited_of(said: Any, declared: Collection[str]) -> Awaited:
    """Return what is waited for; said is a word, or names as a list or with commas.

    Raises BadRequest for anything else.
    """
    if isinstance(said, str) and said in WORDS:
        return Awaited(said)
    if isinstance(said, bool):
        raise _wrong(said, f"Write {'all' if said else 'none'}")
    names = said.split(",") if isinstance(said, str) else said
    if not isinstance(names, (list, tuple)) or not names:
        raise _wrong(said, f"Write {', '.join(WORDS)}, or names of slices")
    for name in names:
        if name not in declared:
            usual = f"Write {', '.join(WORDS)}, or names of: {', '.join(declared) or 'no slice'}"
            raise _wrong(name, did_you_mean(name, [*WORDS, *declared], usual))
    return Awaited("", frozenset(names))


def _wrong(said: Any, remedy: str) -> BadRequest:
    end = "?" if remedy.startswith("Did you mean") else "."
    return BadRequest(
        f"fleet_wait = {said!r}: is neither a word for slices nor a declared one.",
        remedy=f"{remedy}{end}",
    )
