# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which runs of a host start, restart or stop when their definitions change, and why. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._host.run_definition import differing
from ..._host.run_states import ENDED, ENDED_OR_STOPPED, FAILED, STOPPED, SUCCEEDED

STARTED, RESTARTED, NOT_STARTED = "started", "restarted", "not started"
# The keys of the fleet file, where those of a definition have other names.
KEYS = {
    "attempt_folders": "fence",
    "coordinator_port": "port",
    "multislice": "slices",
    "fence": "slices",
}
# Another value of these changes what a program computes with its checkpoint.
_CONTINUES = ("command", "env")
_HOW_IT_WAS = {SUCCEEDED: "it had succeeded", FAILED: "it had failed", STOPPED: "it was stopped"}


@dataclass(frozen=True)
class Change:
    """What becomes of one run."""

    run: str
    does: str
    """started, restarted, stopped or not started."""
    why: tuple[str, ...]
    note: str = ""

    def line(self) -> str:
        """Return it in one line."""
        return (
            f"{self.does}: {self.run}: {', '.join(self.why)}{f'. {self.note}' if self.note else ''}"
        )


def change_of(
    run: str,
    enabled: bool,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    env_changed: bool,
    status: Mapping[str, Any],
    stopped_by: str = "",
) -> Change | None:
    """Return what becomes of a declared run; None if its program is left alone.

    `before` and `after` are its definitions; `before` and `status` are empty for a new run.
    `stopped_by` is the person who keeps it stopped, if one does.
    """
    state = str(status.get("state", ""))
    if not enabled or stopped_by:
        runs = bool(before) and state not in ("", *ENDED_OR_STOPPED)
        reason = f"{stopped_by} stopped it" if enabled else "enabled is false"
        if runs:
            return Change(run, STOPPED, (reason,))
        # Without this line, another declaration of a run that had ended would start nothing, nor
        # would a machine that was created again, and no other output would say why.
        changed = not before or (state in ENDED and (env_changed or differing(before, after)))
        note = f"To start it: tpu-fleet start {run}"
        return Change(run, NOT_STARTED, (reason,), note) if enabled and changed else None
    if not before:
        return Change(run, STARTED, ("it is new",))
    names = differing(before, after) + (["env"] if env_changed else [])
    if not names:
        return Change(run, STARTED, (_HOW_IT_WAS[state],)) if state == STOPPED else None
    why = tuple(dict.fromkeys(KEYS.get(name, name) for name in names))
    if state in ENDED_OR_STOPPED:
        return Change(run, STARTED, (*why, _HOW_IT_WAS[state]))
    return Change(run, RESTARTED, why, _continues(why, before, after, status))


def gone(
    run: str,
    status: Mapping[str, Any],
    before: Mapping[str, Any],
    new: Mapping[str, Mapping[str, Any]],
) -> Change:
    """Return what becomes of a run that is no longer declared.

    `before` is its definition, `new` has those of the runs that are new: one of them may be this
    run with another name.
    """
    state = str(status.get("state", ""))
    ended = [_HOW_IT_WAS[state]] if state in ENDED else []
    note = _stay(status, before, new)
    return Change(run, STOPPED, ("it is no longer declared", *ended), note)


def _stay(
    status: Mapping[str, Any], before: Mapping[str, Any], new: Mapping[str, Mapping[str, Any]]
) -> str:
    """Say where the checkpoints of a run stay, and how another run goes on from them."""
    folder = before.get("checkpoint_dir")
    if not folder or not status.get("saved_at"):
        return ""
    stay = f"Its checkpoints{_at_step(status)} stay in {folder}"
    for name, definition in new.items():
        if definition.get("checkpoint_dir") == folder:
            return f"{stay}, and {name} continues from them"
    same = [name for name, one in new.items() if one.get("command") == before.get("command")]
    begins = f"; {same[0]} begins at step 0" if same else ""
    return f"{stay}{begins}. With checkpoint_dir: {folder} a run continues from them"


def _at_step(status: Mapping[str, Any]) -> str:
    step = status.get("step")
    return f" at about step {step:,}" if isinstance(step, int) else ""


def _continues(
    why: Iterable[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    status: Mapping[str, Any],
) -> str:
    """Say that a run goes on from a checkpoint that it wrote with other values."""
    folder = after.get("checkpoint_dir")
    changed = [name for name in why if name in _CONTINUES]
    if not changed or not folder or folder != before.get("checkpoint_dir"):
        return ""
    # 0 means that there is none.
    if not status.get("saved_at"):
        return ""
    return (
        f"It continues from its checkpoint{_at_step(status)} in {folder}, written with the earlier "
        f"{' and '.join(changed)}; with another checkpoint_dir it begins at step 0"
    )
