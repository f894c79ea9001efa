# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a run, their order, and the words for a loss that is in trouble. Pure.

The run agent, the readers on workers, the metrics, the playbooks and `tpu-fleet` share this table.
It needs only Python 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

PENDING, RUNNING, RESTARTING = "pending", "running", "restarting"
SUCCEEDED, FAILED, STOPPED = "succeeded", "failed", "stopped"
STATES = (PENDING, RUNNING, RESTARTING, SUCCEEDED, FAILED, STOPPED)
"""What an agent writes."""
NOT_STARTED = "not started"
"""The state of a run that is declared on a worker, whose agent has written nothing."""
NOT_BACK = "not back since the reboot"
"""The state of a run whose status is from before the reboot of its worker."""

REMOVED = "removed"
"""Shown as the state of a run that is no longer declared, and of which nothing is alive."""
ENDED = (SUCCEEDED, FAILED)
"""The run has done what it was declared for, or will not be tried again."""
ENDED_OR_STOPPED = (*ENDED, STOPPED)
"""Nothing of the run is alive, and nothing starts it."""

TOLD_TO_STOP = "told to stop"
"""The beginning of the reason in the status of an agent that is being stopped."""

REFUSED = "refused"
"""The state of a run whose status has an invalid value."""
BAD_LOSS = "bad loss"
"""In RANKS: a run that works or has succeeded, with a loss that is no number or has exploded."""
TROUBLE = (FAILED, REFUSED, NOT_BACK, BAD_LOSS, RESTARTING)
"""What a person should look at."""
RANKS = (*TROUBLE, PENDING, NOT_STARTED, RUNNING, STOPPED, SUCCEEDED, REMOVED)
"""The order of states, the most urgent first."""

QUIET_SECONDS, QUIET_STEPS = 600.0, 100.0
"""A running run makes no step any more after so many seconds, and so many of its usual steps."""
EXPLODED = "exploded"
EXPLOSION = 3.0
"""A loss has exploded when it is above this many times its best value."""
_WORDS = {"nan": "NaN", "inf": "infinite", "-inf": "minus infinite"}


def rank_of(state: str, bad_loss: bool = False) -> int:
    """Return the place of a state in RANKS; a state that is not in it is trouble."""
    if state in (RUNNING, SUCCEEDED) and bad_loss:
        state = BAD_LOSS
    return RANKS.index(state) if state in RANKS else len(TROUBLE) - 1


def is_trouble(state: str, bad_loss: bool = False) -> bool:
    """Return whether a person should look at a run in this state."""
    return rank_of(state, bad_loss) < len(TROUBLE)


def quiet_for(
    state: str,
    first: tuple[int, float] | None,
    last: tuple[int, float] | None,
    now: float,
) -> float | None:
    """Return for how many seconds a running run has made no step; None if that is usual for it.

    `first` and `last` are steps of its attempt, each with the time at which it was made.
    """
    if state != RUNNING or first is None or last is None:
        return None
    steps, seconds = last[0] - first[0], last[1] - first[1]
    if steps <= 0 or seconds <= 0:
        return None
    quiet = now - last[1]
    return quiet if quiet > max(QUIET_SECONDS, QUIET_STEPS * seconds / steps) else None


def loss_state(what: str) -> str:
    """Return the word that stands in place of `running` for a loss that is in trouble."""
    return "loss exploded" if what == EXPLODED else f"loss {_WORDS.get(what, what)}"


def loss_said(trouble: Mapping[str, Any]) -> str:
    """Return what is wrong with a loss, since when, and which checkpoint is from before.

    `trouble` is `loss_trouble` of a run's status.
    """
    what = str(trouble.get("what"))
    if what == EXPLODED:
        said = f"loss is more than {EXPLOSION:g} times its best value"
        said += f", {trouble['best']:.4g}," if trouble.get("best") is not None else ""
    else:
        said = f"loss is {_WORDS.get(what, what)}"
    if trouble.get("step") is None:
        return said
    said += f" since step {trouble['step']}"
    if trouble.get("saved_step") is not None:
        return f"{said}; last checkpoint before it: step {trouble['saved_step']}"
    if trouble.get("saved_at") and trouble.get("at"):
        seconds = max(0.0, float(trouble["at"]) - float(trouble["saved_at"]))
        return f"{said}; last checkpoint before it: {_long(seconds)} earlier"
    return f"{said}; no checkpoint from before it is known"


def _long(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


# As Python writes it: the class, with its modules, and the message, without an indent.
_EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?::|$)")
MARK = "--- tpu-fleet "
"""The beginning of a line that the agent writes into a run's log."""
LAST_LINES = 6
"""Lines of a program that failed, where there is room for them."""


def printed(lines: Sequence[str]) -> list[str]:
    """Return the lines of a run's log that its program printed, without those of the agent."""
    return [line for line in lines if not line.startswith(MARK)]


def why_of(lines: Sequence[str], signal: int | None = None) -> str:
    """Return the line of a program's last output that says why it failed.

    That is the last line of an exception, or else the last line. A program that another process
    ended (by SIGKILL or SIGTERM) had no time to write why.
    """
    lines = printed(lines)
    for line in reversed(lines):
        if _EXCEPTION.match(line):
            return line.strip()
    last = (line.strip() for line in reversed(lines) if line.strip())
    return "" if signal in (9, 15) else next(last, "")
