# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do with a whole fleet: (wanted, grant, seen, tried) to actions. Pure.

The plan keeps at most one live node of each slice, at the best place. It requests nothing while
something of the slice may exist that it cannot see: in a zone that does not answer, under a request
whose answer was lost, or under a name that is still being freed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from .._fleet_file.declared import Fleet, Slice
from .._fleet_file.grant import Place, holdings_of
from .._fleet_file.grant import type_of as type_of_node
from .._tpu.model import COMPUTE, TPU, Node
from .._tpu.node_plan import Difference, plan
from .._tpu.node_spec import NodeSpec
from .._tpu.queued_resources import QueuedResource
from .compute_api import compute_creation
from .grant_room import Birth, Room
from .plan_terms import (
    ENDED,
    READY,
    STEADY_STATES,
    UNGRANTED,
    Action,
    Orphan,
    Plan,
    SliceView,
    Status,
    Tries,
    Try,
    World,
    clock,
    identity_of,
    is_dead,
    is_leftover,
    is_on_its_way_out,
    kind_in_words,
    makes,
    named,
    node_in_words,
    place_of,
    queued_status,
    refused_text,
    rest_text,
    resting,
    shape_in_words,
    state_of,
    thing_of,
    tier_of,
    undecided,
    waiting_text,
)
from .tpu_api import creation


def plan_fleet(fleet: Fleet, world: World, tries: Tries) -> Plan:
    """Return what to do now; repeated after each look, it reaches the declared state."""
    planner = _Planner(fleet, world, tries)
    only_ends = fleet.only_expire or bool(fleet.teardown or fleet.stop)
    orphans = [] if only_ends or fleet.only else planner.orphans()
    wanted = [want for want in fleet.slices if not fleet.only or want.name in fleet.only]
    views = [planner.view(want) for want in wanted]
    for view in views:
        if fleet.teardown or fleet.stop:
            planner.take_down(view)
        elif fleet.expire or fleet.only_expire:
            planner.expire(view)
    if only_ends:
        statuses = [planner.left(view) for view in views]
    else:
        # Deletions make room in the grant, so they are known before anything is requested.
        planner.withdraw(views)
        for view in views:
            planner.clear(view)
        statuses = [planner.settle(view) for view in views]
    return Plan(
        tuple(planner.actions),
        tuple(statuses),
        tuple(orphans),
        tuple(planner.warnings()),
        fleet.prune,
    )


class _Planner:
    def __init__(self, fleet: Fleet, world: World, tries: Tries) -> None:
        self.fleet = fleet
        self.world = world
        self.tries = tries
        self.actions: list[Action] = []
        self.room = Room(fleet, world, tries)
        # By name, because each slice looks up its own: a fleet may have a thousand.
        self.wants = {want.name: want for want in fleet.slices}
        self.nodes: dict[str, list[Node]] = {}
        for node in world.nodes:
            self.nodes.setdefault(node.name, []).append(node)

    # What exists -------------------------------------------------------------------------------

    def view(self, want: Slice) -> SliceView:
        view = SliceView(want)
        ours, others = [], []
        for node in self.nodes.get(want.name, ()):
            if self.fleet.owns(node.labels):
                ours.append(node)
            elif is_leftover(node):
                continue  # It does not prevent the creation of a slice of one machine.
            elif node.zone in want.zones and node.api == want.candidates[0].api:
                others.append(node)
        for node in others:
            if want.adopt and not ours and len(others) == 1:
                ours.append(node)
            else:
                view.taken[node.zone] = f"the node {node.name} there belongs to another fleet"
        for node in ours:
            if node.state == "DELETING":
                view.going.append(named(node))
                view.left.append(place_of(node))
            elif is_dead(node):
                view.dead.append(node)
            else:
                view.live.append(node)
        for queued in self.world.queued:
            if not (queued.name == want.name or any(n.name == want.name for n in queued.nodes)):
                continue
            if not self._owns_queued(queued):
                if queued.zone in want.zones and not (want.adopt and view.live):
                    view.taken[queued.zone] = (
                        f"the queued resource {queued.name} there belongs to another fleet"
                    )
            elif queued.is_going:
                view.going.append(named(queued))
                view.left.append(place_of(queued))
                # Google deletes its nodes with it, whatever state they still show.
                view.live = [node for node in view.live if not makes(queued, node)]
            elif queued.is_dead:
                view.ended.append(queued)
            else:
                view.queued.append(queued)
        return view

    def _owns_queued(self, queued: QueuedResource) -> bool:
        return bool(queued.nodes) and all(self.fleet.owns(node.labels) for node in queued.nodes)

    def orphans(self) -> list[Orphan]:
        """Return this fleet's resources that are not declared; with prune, delete them."""
        declared = set(self.wants)
        found = []
        for queued in self.world.queued:
            names = {queued.name, *(node.name for node in queued.nodes)}
            if self._owns_queued(queued) and not names & declared:
                found.append(_orphan(queued))
                if self.fleet.prune and queued.state != "DELETING":
                    self._delete_queued(queued, "the fleet file does not declare it (prune)", "")
        for node in self.world.nodes:
            if self.fleet.owns(node.labels) and node.name not in declared:
                found.append(_orphan(node))
                if self.fleet.prune and not is_on_its_way_out(node):
                    self._remove(node, "the fleet file does not declare it (prune)", "")
        return found

    # What is deleted ---------------------------------------------------------------------------

    def expire(self, view: SliceView) -> None:
        """Delete what the fleet file allows to be deleted when its grant has ended."""
        want, why = view.want, "the grant for it has ended"
        if want.on_grant_end != "delete":
            return
        for node in [*view.live, *view.dead]:
            if self.room.is_over(place_of(node), tier_of(want, node)):
                self._let_go(view, node, why)
        for queued in [*view.queued, *view.ended]:
            if self.room.is_over(place_of(queued), want.tier):
                self._let_queued_go(view, queued, why)

    def take_down(self, view: SliceView) -> None:
        """Delete all resources of a slice that is named in the teardown."""
        if view.want.name not in self.fleet.teardown:
            return
        for queued in [*view.queued, *view.ended]:
            self._let_queued_go(view, queued, "teardown requested")
        for node in [*view.live, *view.dead]:
            self._let_go(view, node, "teardown requested")

    def stopped(self, view: SliceView, node: Node) -> Status:
        """Return the status of a slice that must stop."""
        want = view.want
        if node.state == "STOPPED":
            return Status(want.name, ENDED, "it is stopped", node)
        if node.state == "READY":
            self._act_on(node, "stop_node", want.name, "it is to rest")
        return Status(want.name, "clearing", f"{node_in_words(node)}, to be stopped", node)

    def left(self, view: SliceView) -> Status:
        """Return whether a slice is being deleted, where the plan only deletes."""
        if view.going:
            text = f"waiting until {', '.join(view.going)} is gone"
            return Status(view.want.name, "clearing", text)
        there = [*view.live, *view.dead, *view.queued, *view.ended]
        if view.taken and not there and view.want.name in self.fleet.teardown:
            text = f"{'; '.join(view.taken.values())}; take it over with adopt: true"
            return Status(view.want.name, "refused", text)
        if not there:
            return self._absent(view.want)
        if view.want.name in self.fleet.stop and view.live:
            return self.stopped(view, view.live[0])
        if view.live:
            return Status(view.want.name, READY, "left as it is", view.live[0])
        if view.dead:
            text = node_in_words(view.dead[0])
        else:
            text = "it waits in the queue" if view.queued else "its request has ended"
        return Status(view.want.name, ENDED, f"{text}; nothing to delete")

    def _absent(self, want: Slice) -> Status:
        """Return that a slice does not exist, unless something of it may be out of sight."""
        ends = want.on_grant_end == "delete" and any(
            self.room.is_over(place, want.tier) for place in want.candidates
        )
        goes = want.name in self.fleet.teardown if self.fleet.teardown else ends
        silent = self._silent(want) if goes else ""
        if silent:
            return Status(want.name, "unknown", f"{silent} does not answer, it may be there")
        for (name, place), known in self.tries.items():
            if goes and name == want.name and known.asked_at is not None:
                return Status(want.name, "clearing", f"{place} was asked for, it may still come")
        return Status(want.name, ENDED, "there is none")

    def withdraw(self, views: list[SliceView]) -> None:
        """Delete what this controller has just created, where another fleet was earlier.

        Two fleets of one project may see the same room in the grant and both take it. The older
        resource stays.
        """
        if not self.world.made or self.room.holds_all():
            return
        made: list[tuple[Birth, SliceView, Node | QueuedResource]] = []
        for view in views:
            items: list[Node | QueuedResource] = [*view.queued, *view.live]
            for item in items:
                if thing_of(item) not in self.world.made:
                    continue
                born = self.room.birth(item)
                if born is not None:
                    made.append((born, view, item))
        for _born, view, item in sorted(made, key=lambda entry: entry[0]):
            refusal = self.room.came_too_late(item, view.want.tier)
            if refusal is None:
                continue
            why = f"another was made first: {refusal}"
            if isinstance(item, QueuedResource):
                self._let_queued_go(view, item, why)
            elif self.fleet.owns(item.labels):
                self._let_go(view, item, why)

    def clear(self, view: SliceView) -> None:
        """Delete what is dead, surplus, or queued although the grant for it has ended."""
        want = view.want
        for queued in [item for item in view.queued if item.state in UNGRANTED]:
            never = self.room.never(place_of(queued), want.tier)
            if never:
                self._let_queued_go(view, queued, f"{never}; granted now, it would cost money")
        rest = resting(want, self.world)
        if rest is not None and (rest.held or want.on_queue) and not view.live:
            for queued in list(view.queued):
                self._let_queued_go(view, queued, f"{rest.why}; granted now, it would cost money")
        for queued in list(view.ended):
            # A request that failed never had a machine, so there is nothing to keep.
            if queued.state == "FAILED" or want.on_preempt == "recreate":
                why = f"it is {queued.state} and still books quota"
                self._let_queued_go(view, queued, why)
        for node in list(view.dead):
            if is_leftover(node):
                self._let_go(view, node, "its template or policy is left over")
            elif want.on_preempt == "recreate":
                self._let_go(view, node, f"it is {state_of(node)} and still books quota")
        self._clear_surplus(view)

    def _clear_surplus(self, view: SliceView) -> None:
        """Keep one node or, in a race, all that are still coming."""
        want = view.want
        best = min(view.live, key=lambda node: self._order(want, node), default=None)
        if best is not None and not undecided(want, best):
            for node in [node for node in view.live if node is not best]:
                if self.fleet.owns(node.labels) and not is_on_its_way_out(node):
                    why = f"{want.name} is already {best.state} in {best.zone}"
                    self._let_go(view, node, why)
            for queued in [q for q in view.queued if not makes(q, best)]:
                why = f"{want.name} is already {best.state} in {best.zone}"
                self._let_queued_go(view, queued, why)
        elif best is None and not want.race and len(view.queued) > 1:
            first = min(view.queued, key=lambda item: want.rank(place_of(item)))
            for queued in [q for q in view.queued if q is not first]:
                self._let_queued_go(view, queued, f"{want.name} is queued in {first.zone}")

    def _order(self, want: Slice, node: Node) -> tuple[Any, ...]:
        rank = want.rank(place_of(node))
        going = is_on_its_way_out(node)
        return (not node.is_ready, going, node.is_pending, rank, node.create_time or "", node.zone)

    def _let_go(self, view: SliceView, node: Node, why: str) -> None:
        view.live = [item for item in view.live if item is not node]
        view.dead = [item for item in view.dead if item is not node]
        view.going.append(named(node))
        view.left.append(place_of(node))
        self._remove(node, why, view.want.name)

    def _let_queued_go(self, view: SliceView, queued: QueuedResource, why: str) -> None:
        view.queued = [item for item in view.queued if item is not queued]
        view.ended = [item for item in view.ended if item is not queued]
        view.going.append(named(queued))
        view.left.append(place_of(queued))
        view.live = [node for node in view.live if not makes(queued, node)]
        view.dead = [node for node in view.dead if not makes(queued, node)]
        self._delete_queued(queued, why, view.want.name)

    def _remove(self, node: Node, why: str, slice_name: str) -> None:
        """Delete a node, and its queued resource if that has no other node."""
        for queued in self.world.queued:
            if makes(queued, node) and self._owns_queued(queued) and len(queued.nodes) == 1:
                if queued.state != "DELETING":
                    self._delete_queued(queued, why, slice_name)
                return
        detail = f"{node.accelerator_type}, {node.state}"
        self._act_on(node, "delete_node", slice_name, why, detail=detail)

    def _delete_queued(self, queued: QueuedResource, why: str, slice_name: str) -> None:
        place = place_of(queued)
        action = Action(
            # On Compute Engine the request is the slice itself.
            "delete_queued" if queued.api == TPU else "delete_node",
            slice_name,
            queued.zone,
            queued.name,
            why,
            place=place,
            detail=f"{place.accelerator_type}, {queued.state}",
            failure=queued.error if queued.state == "FAILED" else {},
            api=queued.api,
            uid=queued.nodes[0].uid if queued.nodes else None,
        )
        self._act(action)
        for node in queued.nodes:
            self.room.gone.add(("node", queued.api, queued.zone, node.name))

    def _act_on(self, node: Node, kind: str, slice_name: str, why: str, **more: Any) -> None:
        """Plan an action on this node, and on no other of its name."""
        about = (kind, slice_name, node.zone, node.name, why)
        self._act(Action(*about, api=node.api, uid=node.uid, **more))

    def _act(self, action: Action) -> None:
        if action.verb == "delete":
            if action.thing in self.room.gone and action.thing[0] == "queued":
                return
            self.room.gone.add(action.thing)
        self.actions.append(action)

    # What stays, and what is requested -----------------------------------------------------------

    def settle(self, view: SliceView) -> Status:
        want = view.want
        best = min(view.live, key=lambda node: self._order(want, node), default=None)
        if best is not None and not undecided(want, best):
            return self._keep(view, best)
        silent = self._silent(want)
        if silent:
            text = f"{silent} does not answer; nothing is done until it does"
            return Status(want.name, "unknown", text)
        over, open_race = view.dead or view.ended, view.queued or view.live
        if over and not open_race:
            what = state_of(view.dead[0]) if view.dead else view.ended[0].state
            text = f"it was {what} and on_preempt says keep; set on_preempt: recreate"
            return Status(want.name, "kept", text)
        rest = resting(want, self.world)
        if view.going:
            if rest is None:
                self._reserve(view)
            text = f"waiting until {', '.join(view.going)} is gone"
            return Status(want.name, "clearing", text)
        if rest is not None and not open_race:
            return Status(want.name, ENDED, rest_text(rest, want.on_queue))
        # A kept slice does not race again, but the rest of its race has to end first.
        if (over and open_race) or (view.queued and not want.race):
            return queued_status(want, view.queued, self.world.now)
        return self._ask(view)

    def _reserve(self, view: SliceView) -> None:
        """Reserve the room that a slice had, so that later entries of the file do not take it."""
        want, zones = view.want, {place.zone for place in view.left}
        near = sorted(
            want.candidates, key=lambda place: (place not in view.left, place.zone not in zones)
        )
        self.room.add(want.name, near[0], want.tier, "to be recreated")

    def _silent(self, want: Slice) -> str:
        """Return the zones of a slice that do not answer, as a text."""
        return ", ".join(zone for zone in want.zones if zone in self.world.unreachable)

    def _keep(self, view: SliceView, node: Node) -> Status:
        want = view.want
        if node.state not in STEADY_STATES:
            return Status(want.name, "coming", node_in_words(node), node)
        rest = resting(want, self.world)
        if rest is not None and node.state == "STOPPED":
            return Status(want.name, ENDED, rest_text(rest, want.on_queue), node)
        spec = self._spec_of(want, node)
        differences = plan(spec, node)
        if node.zone not in want.zones:
            differences.insert(0, Difference("zone", node.zone, ", ".join(want.zones)))
        if node.api != want.candidates[0].api:
            differences = [Difference("api", node.api, want.candidates[0].api)]
        fixed = [item for item in differences if item.mask is None]
        listed = "; ".join(f"{item.field} is {item.have!r}, wanted {item.want!r}" for item in fixed)
        if fixed and want.recreate:
            return self._recreate(view, node, listed, f"{listed}, which cannot change in place")
        if self.fleet.bad_chips.get(want.name) == identity_of(node):
            why = "its chips do not initialise"
            return self._recreate(view, node, why, why)
        changeable = tuple(item for item in differences if item.mask is not None)
        if changeable:
            why = ", ".join(item.field for item in changeable) + " differ"
            self._act_on(node, "patch_node", want.name, why, differences=changeable)
        if node.state == "STOPPED":
            return self._start(want, node)
        if fixed:
            text = f"{listed}; set recreate: true to delete and recreate it"
            return Status(want.name, "differs", text, node)
        if not node.is_ready:
            return Status(want.name, "coming", node_in_words(node), node)
        if want.race and view.going:
            # If its request was not cancelled after all, the slice would get a second node.
            text = f"{node_in_words(node)}; waiting until {', '.join(view.going)} is gone"
            return Status(want.name, "clearing", text, node)
        return Status(want.name, READY, f"{shape_in_words(node)} in {node.zone}", node)

    def _recreate(self, view: SliceView, node: Node, what: str, why: str) -> Status:
        """Delete a node that is requested again, if the grant has a place for it."""
        want, silent = view.want, self._silent(view.want)
        if silent:
            text = f"{what}; not recreated before {silent} answers"
            return Status(want.name, "unknown", text, node)
        places = self._places(view, without=node)
        if any(verdict != "never" for _place, verdict, _text, _at in places):
            self._let_go(view, node, why)
            self._reserve(view)
            return Status(want.name, "clearing", f"to be recreated: {what}", node)
        refused = "; ".join(text for _place, _verdict, text, _at in places)
        return Status(want.name, "differs", f"{what}; not recreated: {refused}", node)

    def _start(self, want: Slice, node: Node) -> Status:
        """Start a stopped node if the grant has room, because it costs as much as a new one."""
        place, tier = Place(node.zone, type_of_node(node), node.api), tier_of(want, node)
        refusal = self.room.refusal(place, tier, staying=False, without=node)
        if refusal is None:
            why = "it is stopped and declared"
            self._act_on(node, "start_node", want.name, why, place=place)
            return Status(want.name, "coming", "STOPPED, to be started", node)
        if self.room.is_over(place, tier):
            if want.on_grant_end == "delete":
                text = f"STOPPED, and not started: {refusal}; tpu-fleet grant expire deletes it"
                return Status(want.name, ENDED, text, node)
        elif self.room.refusal(place, tier, staying=True, without=node) is None:
            text = f"STOPPED; it fits the grant when others are gone: {refusal}"
            return Status(want.name, "waiting", text, node)
        text = (
            f"STOPPED, and not started: {refusal}; correct fleet_allocations, or take the slice "
            "out of fleet_slices and delete it"
        )
        return Status(want.name, "refused", text, node)

    def _spec_of(self, want: Slice, node: Node) -> NodeSpec:
        rank = want.rank(place_of(node))
        if rank < len(want.candidates):
            return self.fleet.node_spec(want, want.candidates[rank])
        return self.fleet.node_spec(want, replace(want.candidates[0], zone=node.zone))

    def _ask(self, view: SliceView) -> Status:
        want = view.want
        places = self._places(view)
        for place, verdict, text, _at in places:
            if verdict == "asked" and not want.race:
                text = f"{text}: {self._with_history(want)(place)}"
                return Status(want.name, "coming", text)
        usable = []
        for place, verdict, _text, _at in places:
            known = self.tries.get((want.name, place), Try())
            if verdict == "later" and known.stay and not want.race:
                break  # The refusal was not about the place, so a worse one has no better chance.
            if verdict == "ok":
                usable.append(place)
        # In turn: each place is asked once before any is asked twice.
        usable.sort(key=lambda place: self._turns(want, place))
        busy = {queued.zone for queued in view.queued} | {node.zone for node in view.live}
        busy |= {place.zone for place, verdict, _text, _at in places if verdict == "asked"}
        asked = []
        for place in usable:
            # A zone accepts only one request for a name, so a second one would fail.
            if place.zone in busy:
                continue
            # Requests that this plan has just added count, too.
            if self.room.refusal(place, want.tier, staying=False):
                continue
            self._act(self._creation(want, place))
            self.room.add(want.name, place, want.tier, "asked for")
            busy.add(place.zone)
            asked.append(place)
            if not want.race:
                break
        if asked:
            text = "asking for " + ", ".join(map(self._with_history(want), asked))
            return Status(want.name, "coming", text)
        if view.queued or busy:
            return queued_status(want, view.queued, self.world.now)
        times = [at for _place, verdict, _text, at in places if verdict == "later" and at]
        reasons = "; ".join(text for _place, _verdict, text, _at in places)
        if any(verdict == "later" for _place, verdict, _text, _at in places):
            return Status(want.name, "waiting", reasons, next_at=min(times, default=None))
        over = all(self.room.is_over(p, want.tier) for p in want.candidates)
        if over and want.on_grant_end == "delete":
            return Status(want.name, ENDED, reasons)
        return Status(want.name, "refused", reasons)

    def _turns(self, want: Slice, place: Place) -> int:
        """Return how often a place has refused for lack of capacity."""
        known = self.tries.get((want.name, place), Try())
        return 0 if known.stay else known.attempts

    def _places(
        self, view: SliceView, without: Node | None = None
    ) -> list[tuple[Place, str, str, datetime | None]]:
        """Return each place with a verdict: ok, asked, later (and when) or never."""
        want, found = view.want, []
        for place in want.candidates:
            known = self.tries.get((want.name, place), Try())
            refusal = self.room.refusal(place, want.tier, staying=True, without=without)
            verdict: tuple[str, str, datetime | None]
            if place.zone in view.taken:
                text = f"{view.taken[place.zone]}; give another name, or adopt: true"
                verdict = ("never", text, None)
            elif known.asked_at is not None:
                verdict = ("asked", "requested, not visible yet", None)
            elif known.never:
                verdict = ("never", f"{place}: {known.message}", None)
            elif refusal:
                verdict = ("never", refusal, None)
            elif self.room.refusal(place, want.tier, staying=False):
                verdict = ("later", f"{place} fits the grant when others are gone", None)
            elif known.next_at is not None and known.next_at > self.world.now:
                verdict = ("later", waiting_text(place, known), known.next_at)
            else:
                verdict = ("ok", "", None)
            found.append((place, *verdict))
        return found

    def _creation(self, want: Slice, place: Place) -> Action:
        spec = self.fleet.node_spec(want, place)
        make = compute_creation if place.api == COMPUTE else creation
        kind, body = make(want, place, spec, self._valid_until(want, place))
        known = self.tries.get((want.name, place), Try())
        why = "there is none"
        if known.attempts:
            why = f"attempt {known.attempts + 1}, {known.short} since {clock(known.since)}"
        detail = f"{place.accelerator_type}, {want.asked_tier.replace('_', ' ')}"
        return Action(
            kind,
            want.name,
            place.zone,
            want.name,
            why,
            place=place,
            body=body,
            detail=detail,
            api=place.api,
        )

    def _with_history(self, want: Slice) -> Callable[[Place], str]:
        """Return a function that names a place with its earlier refusals."""

        def text(place: Place) -> str:
            known = self.tries.get((want.name, place), Try())
            return f"{place} ({refused_text(place, known)})" if known.attempts else str(place)

        return text

    def _valid_until(self, want: Slice, place: Place) -> str | None:
        """Return when a request ends: with the grant, because a later node would cost money."""
        ends = self.fleet.grant.ends_at(place, want.tier)
        if want.valid_for is not None:
            own = self.world.now + timedelta(seconds=want.valid_for)
            ends = min(ends, own) if ends else own
        return ends.strftime("%Y-%m-%dT%H:%M:%SZ") if ends else None

    def warnings(self) -> list[str]:
        """Return what a user should know early."""
        fleet, over = self.fleet, [node for node in self.world.nodes if self._outlives(node)]
        held = holdings_of((n for n in self.world.nodes if n not in over), self.world.queued)
        found = fleet.grant.warnings(held, self.world.now, fleet.warn_before, fleet.owner)
        deletes = {want.name for want in fleet.slices if want.on_grant_end == "delete"}
        for node in over:
            how = "delete it, or set on_grant_end: delete and run tpu-fleet grant expire"
            if node.name in deletes:
                how = "run tpu-fleet grant expire to delete it"
            is_so = "it still runs, which may cost money"
            if node.state == "STOPPED":
                is_so = "it is stopped, and not started again"
            found.append(
                f"the grant for {node.name} ({node.accelerator_type} in {node.zone}) has ended and "
                f"{is_so}: {how}"
            )
        return found

    def _outlives(self, node: Node) -> bool:
        """Return whether a declared slice is still there after its grant, and stays."""
        want = self.wants.get(node.name)
        return (
            want is not None
            and self.fleet.owns(node.labels)
            and not (is_dead(node) or self.room.leaves(node))
            and self.room.is_over(place_of(node), tier_of(want, node))
        )


def _orphan(there: Node | QueuedResource) -> Orphan:
    return Orphan(kind_in_words(thing_of(there)), there.zone, there.name, there.state)
