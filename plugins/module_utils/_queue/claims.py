# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a run's state: pure decisions, without a clock and without a bucket.

Each function returns the state to write over the one that was read, or None where that step is not
possible; `store.py` writes it on the condition that the state is still the one that was read.

A run is taken from its owner only by evidence that its program has ended:

- its owner gives it back, because of a notice or a signal;
- another node stands under the name of the owner's slice in the same zone, so the old one is gone;
- the API does not have the node any more, or has it preempted, stopped or under another id;
- elapsed time, only if `fleet_queue.take_after` is set. Then an owner whose claim was not renewed
  for OWN ends its program, and others wait for LOST or longer, each by a clock of its own that
  no user can set and that goes on while a machine is suspended (CLOCK_BOOTTIME).

A machine that boots starts no submitted run before it has read that the run is still its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from . import hours
from .objects import ENDED, FAILED, RUNNING, STOPPED, WAITING, Owner, Submitted, one_line

OWN, LOST = 180.0, 900.0
"""Seconds after which an owner ends its program, and others may take a run, by time alone.

Between them is what an owner may need: a bucket that lets it wait for an answer to its renewals
(90 seconds), the longest grace (300), and the time in which systemd ends what is left (90). The
rest, four minutes, is for a busy machine.
"""
BEAT = 30.0
"""Seconds between two renewals of a claim."""
STOP_LOOK = 5.0
"""Seconds between two looks of an owner for the wish to stop."""
LISTEN, LOOK, TEND = 1.0, 30.0, 300.0
"""Seconds between two looks of an idle leader at the bell, at what waits without a bell, and at
what deaths have left."""
_GONE = ("PREEMPTED", "TERMINATED", "STOPPED", "SUSPENDED", "DELETING")


@dataclass(frozen=True)
class Outcome:
    """How a run ended, as its owner has it."""

    state: str
    """DONE, FAILED or STOPPED."""
    reason: str = ""
    exit_code: int | None = None
    attempt: int = 0
    """The number of the last attempt; 0: as before."""
    failures: int | None = None
    """Failures of the program in this round; None: as before."""


class Node(NamedTuple):
    """What the API has under the name of a slice in a zone."""

    state: str
    """As PREEMPTED; empty if there is none."""
    id: str
    """As in Owner.node; empty if it is not known."""


# Steps


def claimed(run: Submitted, owner: Owner, nonce: str, now: float) -> Submitted | None:
    """Return a waiting run as that of an owner; None if it does not wait."""
    if run.state != WAITING:
        return None
    return replace(
        run,
        state=RUNNING,
        owner=owner,
        last=owner.slice,
        claims=run.claims + 1,
        started_at=now,
        reason="",
        nonce=nonce,
        changed_at=now,
    )


def adopted(run: Submitted, owner: Owner, nonce: str, now: float) -> Submitted | None:
    """Return a run as that of its machine, which has booted since; None if it is another's."""
    if run.owner is None or not run.owner.is_same_machine(owner):
        return None
    return replace(run, owner=owner, nonce=nonce, changed_at=now)


def noted(run: Submitted, attempt: int, failures: int, nonce: str, now: float) -> Submitted:
    """Return a run that goes on, with what its owner counted."""
    return replace(
        run, attempt=max(run.attempt, attempt), failures=failures, nonce=nonce, changed_at=now
    )


def given_back(
    run: Submitted,
    reason: str,
    nonce: str,
    now: float,
    attempt: int = 0,
    failures: int | None = None,
) -> Submitted | None:
    """Return a run that waits again, in its old turn; None if it has no slice.

    That is no failure: only failures of the program, which its owner counted, are in `failures`.
    """
    if run.state != RUNNING:
        return None
    return replace(
        run,
        state=WAITING,
        owner=None,
        attempt=max(run.attempt, attempt),
        failures=run.failures if failures is None else failures,
        used=hours.noted(run, now),
        reason=one_line(reason),
        nonce=nonce,
        changed_at=now,
    )


def finished(run: Submitted, outcome: Outcome, nonce: str, now: float) -> Submitted | None:
    """Return a run that has ended, as its owner has it; None if it has no slice."""
    if run.state != RUNNING or outcome.state not in ENDED:
        return None
    return replace(
        run,
        state=outcome.state,
        owner=None,
        exit_code=outcome.exit_code,
        attempt=max(run.attempt, outcome.attempt),
        failures=run.failures if outcome.failures is None else outcome.failures,
        used=hours.noted(run, now),
        reason=one_line(outcome.reason),
        ended_at=now,
        nonce=nonce,
        changed_at=now,
    )


def stopped(run: Submitted, why: str, nonce: str, now: float) -> Submitted | None:
    """Return a waiting run as stopped; None if it does not wait."""
    if run.state != WAITING:
        return None
    reason = one_line(why)
    return replace(run, state=STOPPED, reason=reason, ended_at=now, nonce=nonce, changed_at=now)


def retried(run: Submitted, person: str, turn: int, nonce: str, now: float) -> Submitted | None:
    """Return a failed or stopped run that waits again, in a new round; None if it is open or done.

    Its attempts are numbered on, and it goes on from its checkpoint.
    """
    if run.state not in (FAILED, STOPPED):
        return None
    return _another_round(run, turn, f"retried by {person}", nonce, now)


def submitted_again(run: Submitted, new: Submitted) -> Submitted | None:
    """Return the state of a new definition under the name of a run; None if that is open."""
    if run.state not in ENDED:
        return None
    used = run.used if run.person == new.person else ()
    again = replace(new, round=run.round, claims=run.claims, attempt=run.attempt, used=used)
    return _another_round(again, new.turn, "", new.nonce, new.changed_at)


def _another_round(run: Submitted, turn: int, reason: str, nonce: str, now: float) -> Submitted:
    return replace(
        run,
        state=WAITING,
        round=run.round + 1,
        turn=turn,
        failures=0,
        owner=None,
        exit_code=None,
        ended_at=None,
        reason=reason,
        nonce=nonce,
        changed_at=now,
    )


# Evidence: each returns why a run's owner cannot run its program any more; empty: it may.


def recreated(owner: Owner, here: Owner) -> str:
    """Judge by the machine that stands under the owner's name in its zone."""
    if (owner.slice, owner.zone) != (here.slice, here.zone) or owner.node == here.node:
        return ""
    return f"{owner.slice} was created again"


def gone_by_api(owner: Owner, node: Node) -> str:
    """Judge by the API, which was asked about the owner's slice after the state was read."""
    if not node.state:
        return f"{owner.slice} was deleted"
    if node.id and node.id != owner.node:
        return f"{owner.slice} was created again"
    return f"{owner.slice} is {node.state.lower()}" if node.state in _GONE else ""


def silent(owner: Owner, seconds: float, take_after: float | None) -> str:
    """Judge by the time in which the claim was not renewed, if `take_after` allows it."""
    if take_after is None or seconds < max(LOST, take_after):
        return ""
    return f"{owner.slice} was silent for {int(seconds // 60)} minutes"


class Lease:
    """How long an owner's program may run. All times are of CLOCK_BOOTTIME, in seconds."""

    def __init__(self, sent: float, take_after: float | None) -> None:
        self._sent, self._is_bounded = sent, take_after is not None

    def renewed(self, sent: float) -> None:
        """Count from when a request was sent that renewed the claim."""
        self._sent = max(self._sent, sent)

    def left(self, now: float) -> float:
        """Return for how long the program may go on without a renewal; at 0 it is ended."""
        return max(0.0, self._sent + OWN - now) if self._is_bounded else float("inf")


class Silence:
    """For how long claims were not renewed, by one's own clock since one first saw them so."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int, float]] = {}

    def of(self, run: str, generation: int, metageneration: int, sent: float, got: float) -> float:
        """Return for how long a state did not change; it was asked for and received at these times.

        What is seen first counts from when it was received, and lasts until the question was sent.
        """
        known = self._seen.get(run)
        if known is None or known[:2] != (generation, metageneration):
            self._seen[run] = (generation, metageneration, got)
            return 0.0
        return max(0.0, sent - known[2])

    def keep(self, runs: set[str]) -> None:
        """Forget all other runs."""
        self._seen = {run: seen for run, seen in self._seen.items() if run in runs}
