"""The notifications for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import FAILED, loss_said

from ..history.causes import of_checkpoints
from ..notify.message import Message
from ..show.times import long
from ..workers.ask.run_view import RunView
from .trouble import Said

TROUBLES = {
    "api": "The TPU API does not answer",
    "credentials": "The credentials are not accepted",
    "settings": "The fleet file cannot be read",
    "lease": "The watcher cannot get its lease",
    "provision": "Slices cannot be requested",
    "queue": "The queue of submitted runs cannot be read",
    "github": "Keys of machines are not registered at GitHub",
    "page": "The fleet's page cannot be published",
}
"""Titles of troubles, by the first word of their key."""


MOST_RUNS = 20
"""Runs that one message names."""


def clock(at: float) -> str:
    """Return the time of day."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def preempted(
    name: str,
    state: str,
    uid: str,
    what: str,
    policy: str,
    now: float,
    checkpoints: Mapping[str, str],
) -> Message:
    """Return the message that a slice was lost; `checkpoints` has on what those of each run are."""
    how = "was preempted" if state in ("PREEMPTED", "SUSPENDED") else f"is {state.lower()}"
    goes_on = (
        "It is requested again until there is capacity."
        if policy == "recreate"
        else "It is not recreated, because on_preempt is keep."
    )
    return Message(
        event="preempted",
        title=f"{name} {how}",
        text="\n".join([f"{what}. {goes_on}", *became_of(checkpoints)]),
        at=now,
        slice=name,
        key=f"preempted:{name}:{uid}",
    )


def became_of(checkpoints: Mapping[str, str]) -> list[str]:
    """Return what the loss of a slice does to the checkpoints of its runs, in a line for each."""
    lines = [f"{run}: {of_checkpoints(place)}." for run, place in sorted(checkpoints.items())]
    more = len(lines) - MOST_RUNS
    return [*lines[:MOST_RUNS], *([f"And {more} more runs."] if more > 0 else [])]


def healed(name: str, done: str, runs: Sequence[RunView], uid: str, now: float) -> Message:
    """Return the message that a slice is set up again."""
    title, _newline, text = done.partition("\n")
    lines = [run_line(run) for run in runs]
    return Message(
        event="healed",
        title=title,
        text="\n".join([text, *lines]),
        at=now,
        slice=name,
        key=f"healed:{name}:{uid}:{int(now)}",
    )


def run_line(run: RunView) -> str:
    """Return the state of a run in words."""
    at = f", step {run.step}" if run.step is not None else ""
    return f"Run {run.run}: {run.word}, attempt {run.attempt}{at}."


def run_ended(run: RunView, key: str, now: float) -> Message:
    """Return the message that a run has finished or failed for good."""
    failed = run.state == FAILED
    reason = run.reasons[0] if run.reasons else ""
    parts = [f"Attempt {run.attempt}"]
    if failed and run.exit_code is not None:
        parts.append(f"exit code {run.exit_code}")
    if failed and run.signal:
        parts.append(f"signal {run.signal}")
    if run.step is not None:
        parts.append(f"step {run.step}")
    text = ", ".join(parts) + "."
    if failed and run.failed_with:
        text += f" {run.failed_with.rstrip('.')}."
    if reason:
        text += f" {reason[:1].upper()}{reason[1:].rstrip('.')}."
    return Message(
        event="failed" if failed else "finished",
        title=f"{run.run} {'failed' if failed else 'has finished'} on {run.slice}",
        text=text,
        at=now,
        slice=run.slice,
        run=run.run,
        log=run.tail,
        key=key,
    )


def loss_trouble(run: RunView, key: str, now: float) -> Message:
    """Return the message that the loss of a run is no number any more, or has exploded."""
    said = loss_said(run.loss_trouble or {})
    return Message(
        event="loss",
        title=f"{run.run} on {run.slice}: {said.partition(';')[0]}",
        text=f"{said[:1].upper()}{said[1:]}. {run_line(run)}",
        at=now,
        slice=run.slice,
        run=run.run,
        key=key,
    )


def more_runs(name: str, runs: Sequence[RunView], now: float) -> Message:
    """Return one message for the runs that are not reported one by one."""
    failed = sum(run.state == FAILED for run in runs)
    return Message(
        event="failed" if failed else "finished",
        title=f"and {len(runs)} more on {name}",
        text=f"{len(runs)} more runs have ended there, {failed} of them failed: tpu-fleet runs.",
        at=now,
        slice=name,
    )


def rests(
    name: str, how: str, why: str, ends: str, now: float, held: bool = False, on_queue: bool = False
) -> Message:
    """Return the message that a slice was stopped or deleted; `held`: for a spent budget."""
    was = "deleted" if how == "delete" else "stopped"
    disks = "its data disks are" if how == "delete" else "its disks are"
    again = (
        f"Its runs are kept stopped. To go on, raise fleet_budget or wait for the next period; "
        f"then run: tpu-fleet slice wake {name}, and tpu-fleet start RUN"
        if held
        else f"It comes for a submitted run, or with: tpu-fleet slice wake {name}"
        if on_queue
        else f"To start it again, change one of its runs, or run: tpu-fleet slice wake {name}"
    )
    return Message(
        event="finished",
        title=f"{name} was {was}",
        text=(
            f"{why[:1].upper()}{why[1:]}. The results of its runs are on the watcher's "
            "computer, in the folder collected. The chips no longer cost anything; "
            f"{disks} kept, and billed as disks.\n{again}"
        ),
        at=now,
        slice=name,
        key=f"rest:{name}:{ends}:{int(now)}",
    )


def recreated(name: str, why: str, now: float) -> Message:
    """Return the message that a slice is recreated for chips that do not initialise."""
    return Message(
        event="preempted",
        title=f"{name} is recreated",
        text=(
            f"{why[:1].upper()}{why[1:]}. What its runs left is on the watcher's computer, in the "
            "folder collected; the slice is requested again until there is capacity."
        ),
        at=now,
        slice=name,
        key=f"recreated:{name}:{int(now)}",
    )


def grant_ending(entry: Mapping[str, Any], text: str, last: bool, now: float) -> Message:
    """Return the message that an entry of the grant ends soon."""
    return Message(
        event="grant_ending",
        title=f"The grant of {entry['text']} ends on {entry['last_day']}",
        text=text,
        at=now,
        # Once when the end is near, and once more on the last day.
        key=f"grant:{entry['text']}:{entry['ends']}:{'last' if last else 'near'}",
    )


def outside_the_grant(text: str, now: float) -> Message:
    """Return the message that something costs money."""
    return Message(
        event="grant_ending",
        title="Something is outside the grant",
        text=f"{text[:1].upper()}{text[1:]}.",
        at=now,
        key=f"outside:{text}",
    )


def trouble(said: Said, log: Sequence[str], now: float, begun_at: float) -> Message:
    """Return the message about a trouble or its end; begun_at is the time of day for people."""
    kind, _colon, what = said.key.partition(":")
    name = TROUBLES.get(kind) or {
        "setup": f"{what} cannot be set up",
        "away": f"{what} does not answer",
        "stuck": f"{what} needs a person's action",
        "rest": f"{what} cannot be stopped or deleted",
        "chips": f"{what} has chips that do not initialise",
        "notify": f"Messages cannot be sent by {what}",
    }.get(kind, said.key)
    begun = f"Since {clock(begun_at)}."
    if said.over:
        title, text = f"Over: {name}", f"It lasted {long(now - said.since)}. {begun}"
    else:
        title, text = name, f"{said.text}\n{begun} The watcher keeps trying."
    return Message(
        event="watcher_trouble",
        title=title,
        text=text,
        at=now,
        slice=what if kind in ("setup", "stuck", "rest", "chips") else "",
        log=tuple(log),
        key=f"trouble:{said.key}:{int(said.since)}:{'over' if said.over else 'begun'}",
    )
