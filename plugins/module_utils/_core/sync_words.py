# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse what a worker says that takes a version of a code tree. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .._schema.values import ENTRY_NAME
from .answer import Words, parsed

SYNCS = re.compile(r"program|need|ready|refused|switched|running|done")
_CHOICE = re.compile(r"[0-9a-f]{1,250000}")


def sync_word(worker: str, line: bytes) -> dict[str, Any]:
    """Read a line of a worker that takes a version of a code tree."""
    words = Words(worker, parsed(worker, line))
    what = words.word("say", SYNCS)
    read: dict[str, Callable[[Words], dict[str, Any]]] = {
        "need": lambda one: {"files": one.word("files", _CHOICE)},
        "ready": lambda one: {"same": one.flag("same")},
        "refused": lambda one: {"why": one.text("why", most=2000)},
        "running": _synced_runs,
        "done": _synced_runs,
    }
    return {"say": what, **(read[what](words) if what in read else {})}


def _synced_runs(words: Words) -> dict[str, Any]:
    return {
        "runs": [
            {
                "run": one.word("run", ENTRY_NAME),
                "state": one.text("state", most=40),
                "attempt": one.number("attempt"),
                "next": one.flag("next"),
                "reason": one.text("reason"),
            }
            for one in words.objects("runs", 1000)
        ]
    }
