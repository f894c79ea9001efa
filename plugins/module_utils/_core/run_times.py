# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Into what the time of a run's attempt is divided. The run agent uses this file too. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SAID = ("restore", "compile", "data", "save")
"""The kinds of time that a program can say itself."""
KINDS = ("init", *SAID, "step")
"""All kinds, in the order in which an attempt has them first."""
PARTS = ("wait", "prepare", "import", "restore", "compile", "first_step")
"""The parts of a start in their order: `wait` is before the attempt begins."""
COUNTS = ("programs", "hits", "misses")
"""Programs compiled until the first step, and what the compilation cache had of them."""
_MOST_SECONDS, _MOST_COUNT = 1e9, 10**9


def seconds_of(told: Any, names: Iterable[str]) -> dict[str, float]:
    """Return the seconds of these names in an object; what is none is left out."""
    found = told if isinstance(told, Mapping) else {}
    return {
        name: float(found[name])
        for name in names
        if isinstance(found.get(name), (int, float))
        and not isinstance(found[name], bool)
        and 0 <= found[name] < _MOST_SECONDS
    }


def counts_of(told: Any) -> dict[str, int]:
    """Return the counts in an object; what is none is left out."""
    found = told if isinstance(told, Mapping) else {}
    return {
        name: found[name]
        for name in COUNTS
        if isinstance(found.get(name), int)
        and not isinstance(found[name], bool)
        and 0 <= found[name] < _MOST_COUNT
    }
