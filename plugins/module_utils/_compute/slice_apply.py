# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps of a decision about one slice on Compute Engine, one API call each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Any

from .._core.errors import (
    AlreadyExists,
    BadRequest,
    Busy,
    NodeLost,
    NotFound,
    PermissionDenied,
    TpuError,
    from_status,
)
from .._core.wait import Backoff, Seen, wait_for
from .._tpu.model import Node, Operation, basename
from .._tpu.node_apply import StepApplier, outcome, result_of
from .._tpu.node_plan import CHANGING, Decision, Step, changeable
from .._tpu.node_spec import SPEC_LABEL
from .._tpu.nodes import NODE_POLL
from .groups import FAILED, waiting_until
from .instance import node_raw, shown
from .slice_bodies import Shape, slice_bodies
from .slice_patch import patch_slice
from .slice_plan import Sight, Wanted, decide, sight_of
from .slices import ComputeSlices

# How many looks may pass before what was made is visible.
LOOKS = 8
STOPPED = ("STOPPED", "PREEMPTED", "TERMINATED")


def settle(
    slices: ComputeSlices,
    wanted: Wanted,
    params: Mapping[str, Any],
    check: bool,
    poll: Backoff = NODE_POLL,
) -> dict[str, Any]:
    """Make the slice what is wanted, or say what that would take; return a module's result."""
    applier = Applier(slices, wanted, float(params["wait_timeout"]), poll)
    before = applier.see()
    options = {key: bool(params[key]) for key in ("adopt", "recreate", "wait")}
    decision = decide(params["state"], wanted, before, **options)
    if check:
        if any(step.kind == "create" for step in decision.steps):
            check_offer(slices, wanted)
        done = [step for step in decision.steps if step.kind in CHANGING]
        node = outcome(decision, wanted.spec, before.node, requested(wanted))
        after = replace(before, node=node) if node is before.node else Sight(node)
    else:
        after, done = applier.apply(decision, before)
    if params["state"] == "absent":
        after = Sight()
    result = result_of(decision, done, before.node, after.node)
    return {**result, f"tpu_{wanted.noun}": after.facts()}


class Applier(StepApplier[Sight]):
    """Carries out decisions about one slice on Compute Engine."""

    def __init__(
        self,
        slices: ComputeSlices,
        wanted: Wanted,
        timeout: float = 1800.0,
        poll: Backoff = NODE_POLL,
    ) -> None:
        super().__init__(slices.clock, timeout, poll)
        self.slices = slices
        self.wanted = wanted
        self._zone, self._name = wanted.spec.zone, wanted.spec.name
        self._is_patient = True

    def see(self) -> Sight:
        """Return what there is of the slice."""
        several = self.wanted.several
        sight = sight_of(self.wanted, self.slices.one(self._zone, self._name, several))
        if sight.node is None or several or sight.state != "STOPPING":
            return sight
        # An instance has the same status while it is deleted; only its operation shows that.
        going = [one for one in self._operations("delete") if not one.done]
        return replace(sight, node=replace(sight.node, state="DELETING")) if going else sight

    def apply(self, decision: Decision, seen: Sight) -> tuple[Sight, list[Step]]:
        """Carry out the steps; return what there is then, and the steps that changed something."""
        self._is_patient = any(step.kind == "wait_gone" for step in decision.steps)
        sight, done = super().apply(decision, seen)
        made = bool(done) and done[-1].kind == "create"
        if made and sight.node is not None and sight.node.is_ready:
            # A template attaches only disks that all machines read.
            rest = changeable(self.wanted.spec, sight.node)
            if rest:
                patch_slice(self.slices, self._zone, self._name, rest, self._left())
                sight = self.see()
        return sight, done

    # Changing -----------------------------------------------------------------------------------

    def _patch(self, decision: Decision, _sight: Sight) -> tuple[Sight, bool]:
        patch_slice(self.slices, self._zone, self._name, decision.differences, self._left())
        return self.see(), True

    def _start(self, _decision: Decision, _sight: Sight) -> tuple[Sight, bool]:
        self._operation = self.slices.start(self._zone, self._name)
        return self.see(), True

    def _stop(self, _decision: Decision, _sight: Sight) -> tuple[Sight, bool]:
        self._operation = self.slices.stop(self._zone, self._name)
        return self.see(), True

    # Creating -----------------------------------------------------------------------------------

    def _create(self, _decision: Decision, _sight: Sight) -> tuple[Sight, bool]:
        try:
            self._operation = self.slices.create(self._zone, self._bodies(), self._left())
        except AlreadyExists:
            # A creation that was requested a moment ago may not be visible yet.
            sight = self._appearing()
            if sight.node is None or not self._is_ours(sight.node):
                raise
            return sight, False
        sight = self.see()
        return (sight if sight.node is not None else Sight(requested(self.wanted))), True

    def _bodies(self) -> dict[str, Any]:
        bodies = slice_bodies(self.wanted.spec, _shape(self.wanted))
        if self.wanted.valid_for is not None and "group" in bodies:
            until = self.slices.transport.server_time() + timedelta(seconds=self.wanted.valid_for)
            bodies["group"]["description"] = waiting_until(until.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return bodies

    def _is_ours(self, node: Node) -> bool:
        return node.labels.get(SPEC_LABEL) == self.wanted.spec.digest()

    def _appearing(self) -> Sight:
        """Return the slice once it is visible, within some looks."""
        sight = self.see()
        for delay in islice(self.poll.delays(), LOOKS):
            if sight.node is not None:
                break
            self.slices.clock.sleep(delay)
            sight = self.see()
        return sight

    # Deleting -----------------------------------------------------------------------------------

    def _delete(self, _decision: Decision, sight: Sight) -> tuple[Sight, bool]:
        return sight, self._deleted()

    def _deleted(self) -> bool:
        try:
            self._operation = self.slices.delete(self._zone, self._name, 0.0)
        except NotFound:
            # Another process has already deleted it, which was the aim.
            return False
        except Busy:
            if not self._is_patient:
                raise
            return False  # It is deleted once it has stopped.
        return True

    def _wait_gone(self, _decision: Decision, _sight: Sight) -> tuple[Sight, bool]:
        """Wait until nothing is left; template and policy go once their group is gone."""

        def look(_elapsed: float) -> Seen[bool]:
            self._refresh()
            sight = self.see()
            if sight.is_rest or (sight.node and sight.state in STOPPED):
                self._deleted()
                sight = self.see()
            return Seen(sight.in_words, sight.node is None, True)

        self._wait(look, "to be gone")
        self._operation = None
        return Sight(), False

    # Waiting ------------------------------------------------------------------------------------

    def _wait_ready(self, _decision: Decision, _sight: Sight) -> tuple[Sight, bool]:
        unseen = 0

        def look(_elapsed: float) -> Seen[Sight]:
            nonlocal unseen
            operation = self._refresh() or self._latest_creation()
            sight = self.see()
            if sight.node is None:
                # It may be gone since the operation was read, which then has the reason.
                self._refresh()
                unseen += 1
                if unseen > LOOKS and (operation is None or operation.done):
                    raise self._lost("is gone, and no operation shows why")
            elif sight.state == FAILED:
                raise self._failed(sight)
            elif sight.node.is_lost and (operation is None or operation.done):
                raise self._lost(f"became {sight.state} before it was READY")
            ready = sight.node is not None and sight.node.is_ready
            return Seen(sight.in_words, ready, sight)

        return self._wait(look, "to be READY") or self.see(), False

    def _wait_stopped(self, _decision: Decision, _sight: Sight) -> tuple[Sight, bool]:
        def look(_elapsed: float) -> Seen[Sight]:
            self._refresh()
            sight = self.see()
            if sight.node is None:
                raise self._lost("is gone")
            # One that Google may take back shows the same status if it was stopped.
            return Seen(sight.in_words, sight.state in STOPPED, sight)

        return self._wait(look, "to be STOPPED") or self.see(), False

    def _wait(self, look: Any, what: str) -> Any:
        clock = self.slices.clock
        what = f"the {self.wanted.where} {what}"
        return wait_for(look, what=what, timeout=self._left(), clock=clock, backoff=self.poll)

    def _refresh(self) -> Operation | None:
        """Look at the operation that goes on; raise its error if it has failed."""
        if self._operation is not None:
            self._operation = self.slices.refresh(self._operation)
        return self._operation

    def _latest_creation(self) -> Operation | None:
        """Return the creation that goes on: when it fails, only its operation shows why."""
        self._operation = next(iter(self._operations("create")), None)
        return self._refresh()

    def _operations(self, verb: str) -> list[Operation]:
        """Return the operations of a kind on the slice, the newest first."""
        try:
            found = self.slices.operations(self._zone)
        except PermissionDenied:
            return []  # Permission to create instances does not include this one.
        return [one for one in found if (basename(one.target), one.verb) == (self._name, verb)]

    def _failed(self, sight: Sight) -> TpuError:
        """Return the error of a group that gave up, and that is still there."""
        error = from_status(sight.error, self._name)
        stays = "Its group stays, and may still get capacity, until you delete it (state: absent)"
        error.remedy = f"{error.remedy} {stays} or recreate it (recreate: true)."
        return error

    def _lost(self, text: str) -> NodeLost:
        return NodeLost(
            f"The {self.wanted.where} {text}.",
            remedy="Create it again (recreate: true).",
            resource=self._name,
        )


def check_offer(slices: ComputeSlices, wanted: Wanted) -> None:
    """Raise the error that a creation would fail with, without creating anything."""
    kind, zone = _shape(wanted).machine_type, wanted.spec.zone
    slice_bodies(wanted.spec, _shape(wanted))
    try:
        offered = slices.offers(zone, kind)
    except PermissionDenied as error:
        # Permission to create instances does not include permission to read the catalogue.
        if error.flavour == "iam":
            return
        raise
    if not offered:
        raise BadRequest(
            f"The zone {zone} does not offer the machine type {kind}.",
            remedy=f"Run: gcloud compute machine-types list --filter=name={kind} "
            f"--project={wanted.spec.project}",
        )


def requested(wanted: Wanted) -> Node | None:
    """Return the slice as its request describes it, for when the API does not show it yet."""
    if wanted.shape is None:
        return None
    spec, bodies = wanted.spec, slice_bodies(wanted.spec, wanted.shape)
    properties = bodies["template"]["properties"] if wanted.several else bodies["instance"]
    raw = node_raw(
        (spec.project, spec.zone, spec.name),
        wanted.shape.machine_type,
        wanted.shape.whole_topology,
        shown(properties, spec.project, spec.zone),
        networkEndpoints=[{} for _worker in range(wanted.shape.workers)],
    )
    return Node.from_api({**raw, "state": "CREATING"})


def _shape(wanted: Wanted) -> Shape:
    if wanted.shape is None:
        raise BadRequest(f"No option says of what the {wanted.where} is made.")
    return wanted.shape
