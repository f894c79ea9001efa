# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's state as it was read, and the list of all. No I/O."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from . import objects
from .bucket import Stored
from .objects import RUNNING, RUNS, Refused, Submitted, Wish

KNOWN = 20_000
"""Texts of states that are not read once more: a list mostly has what the last one had."""


class Seen(NamedTuple):
    """A run's state, and the numbers of the object in which it was read."""

    run: Submitted
    generation: int
    metageneration: int


@dataclass
class Listing:
    """All runs of the queue."""

    runs: dict[str, Seen] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Why an object was refused, by its name."""
    sent: float = 0.0
    got: float = 0.0
    """When they were asked for, and received: seconds of the queue's clock."""

    @property
    def states(self) -> list[Submitted]:
        """Return the states."""
        return [seen.run for seen in self.runs.values()]


def seen_of(found: Stored, run: Submitted, where: str = RUNS) -> Seen:
    """Return a state with the numbers of its object, below `where`. Raises Refused."""
    if found.name != where + run.name:
        raise Refused([f"name: {run.name} is in the object of another name"])
    return Seen(run, found.generation, found.metageneration)


def run_in(found: Stored) -> Submitted:
    """Return the state that an object has in its metadata, and how far it is. Raises Refused."""
    run = _run_of(found.metadata.get("run", ""))
    told = found.metadata.get("progress")
    if told is None or run.state != RUNNING:
        return run
    with contextlib.suppress(Refused):
        said = objects.progress_of(told.encode("ascii", "replace"))
        return replace(run, step=said.step, loss=said.loss)
    return run


@lru_cache(maxsize=KNOWN)
def _run_of(text: str) -> Submitted:
    return objects.run_of(text.encode("ascii", "replace"))


def wish_in(found: Stored) -> Wish | None:
    """Return the wish that an object has in its metadata; None if it is none."""
    try:
        return objects.wish_of(found.metadata.get("wish", "").encode("ascii", "replace"))
    except Refused:
        return None
