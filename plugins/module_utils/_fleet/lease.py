# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of a fleet: a label on one of its resources that names the holder and the end.

The API has no locks, and labels have no compare-and-set. So a lease keeps people apart and does not
decide races: names are unique in a zone, and each look deletes surplus resources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from .._core.errors import Busy, Refused, TpuError
from .._fleet_file.declared import Fleet
from .._tpu.model import Node
from .cloud import Cloud
from .plan_terms import Action, World

HOLDER_LABEL = "tpu-fleet-lease"
UNTIL_LABEL = "tpu-fleet-lease-until"


@dataclass(frozen=True)
class Lease:
    """Which controller works on the fleet, and until when at the latest."""

    holder: str
    until: datetime

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Lease | None:
        """Return the lease in these labels; None if there is none or it cannot be read."""
        holder, until = labels.get(HOLDER_LABEL), labels.get(UNTIL_LABEL, "")
        if not holder or not re.fullmatch(r"[0-9]{1,11}", until):
            return None
        return cls(holder, datetime.fromtimestamp(int(until), timezone.utc))

    def labels(self) -> dict[str, str]:
        """Return the labels that describe this lease."""
        return {HOLDER_LABEL: self.holder, UNTIL_LABEL: str(int(self.until.timestamp()))}


def without_lease(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels without those of a lease."""
    ours = (HOLDER_LABEL, UNTIL_LABEL)
    return {key: value for key, value in labels.items() if key not in ours}


def held_by_another(
    labels: Iterable[Mapping[str, str]], holder: str, now: datetime
) -> Lease | None:
    """Return another holder's lease that has not ended, or None."""
    found = (Lease.from_labels(item) for item in labels)
    others = [lease for lease in found if lease and lease.holder != holder and lease.until > now]
    return max(others, key=lambda lease: lease.until, default=None)


def holder_name(user: str, host: str) -> str:
    """Return a name for this user on this computer, in the form of a label's value."""
    return re.sub(r"[^a-z0-9_-]+", "-", f"{user}_at_{host}".lower())[:63].strip("-_")


class LabelLease:
    """The lease of one controller; without a holder it does nothing."""

    def __init__(self, cloud: Cloud, fleet: Fleet, holder: str, seconds: float) -> None:
        self._cloud = cloud
        self._fleet = fleet
        self._holder = holder
        self._lasts = timedelta(seconds=seconds)
        self._taken = False
        # Where the lease was written last, because a list may not show it yet when it is released.
        self._put_on: tuple[str, str] | None = None

    def guard(self, world: World) -> None:
        """Raise Refused if another controller holds the lease."""
        if not self._holder:
            return
        lease = held_by_another(self._labels(world), self._holder, world.now)
        if lease is not None:
            raise Refused(
                f"{lease.holder} is working on this fleet, until {lease.until:%Y-%m-%d %H:%M:%S} "
                "UTC at the latest.",
                remedy="Wait until then; if that controller has died, its lease ends at that time.",
            )

    def hold(self, actions: Sequence[Action], world: World | None, now: datetime) -> list[Action]:
        """Write the lease to an existing node or, if there is none, to one that is created now."""
        carried = list(actions)
        if not self._holder or world is None:
            return carried
        self._taken = True
        half = now + self._lasts / 2
        held = [Lease.from_labels(labels) for labels in self._labels(world)]
        if any(lease and lease.holder == self._holder and lease.until > half for lease in held):
            return carried
        labels = Lease(self._holder, now + self._lasts).labels()
        touched = {(action.zone, action.name) for action in actions}
        for node in world.nodes:
            idle = node.state == "READY" and (node.zone, node.name) not in touched
            if idle and self._fleet.owns(node.labels):
                self._label(node, {**node.labels, **labels})
                self._put_on = (node.zone, node.name)
                return carried
        for index, action in enumerate(actions):
            if action.kind.startswith("create"):
                carried[index] = self._cloud.with_labels(action, labels)
                break
        return carried

    def release(self) -> None:
        """Remove the lease from nodes that can be changed; elsewhere it expires."""
        if not self._taken:
            return
        try:
            for node in self._cloud.nodes().items:
                lease = Lease.from_labels(node.labels)
                mine = lease is not None and lease.holder == self._holder
                mine = mine or (node.zone, node.name) == self._put_on
                if mine and self._fleet.owns(node.labels) and node.state == "READY":
                    self._label(node, without_lease(node.labels))
        except TpuError:
            return

    def _labels(self, world: World) -> list[dict[str, str]]:
        found = [node.labels for node in world.nodes]
        found += [node.labels for queued in world.queued for node in queued.nodes]
        return [labels for labels in found if self._fleet.owns(labels)]

    def _label(self, node: Node, labels: Mapping[str, str]) -> None:
        # A lease that is not written does no harm: names and looks keep the fleet correct.
        for _try in range(10):
            try:
                self._cloud.label(node, labels)
                return
            except Busy:
                self._cloud.clock.sleep(1.0)
            except TpuError:
                return
