# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The changes that make a resource what is wanted, and what a module returns of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .apis import GoogleApis


@dataclass(frozen=True)
class Change:
    """One thing to do, why, and how."""

    kind: str
    why: str
    apply: Callable[[], object]


class Applier:
    """What was seen of a resource, and what it becomes."""

    def __init__(self, apis: GoogleApis) -> None:
        self._apis = apis
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}
        self.warnings: list[str] = []
