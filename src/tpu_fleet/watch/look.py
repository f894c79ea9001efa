"""Look at the fleet: its file, its slices by the API, and its workers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown_text
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import boottime
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apis import apis_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import FleetApplier
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import KEEP

from ..workers.inventory.hosts import Known
from ..workers.inventory.lookup import read_known
from ..workers.inventory.read import PlayError
from . import after, ask_hosts, chips, decide, seen, trouble
from .decide import Finish, SliceSeen
from .ground import Settings
from .hosts import HostSeen, hear
from .note import Notes
from .purse import Purse
from .queue_look import QueueLook
from .read import read_settings, read_workers
from .report import Report
from .state import LONGEST, State

Looks = Mapping[str, Mapping[str, HostSeen]]
LOG = logging.getLogger("tpu-fleet-watch")
BOOK_REST = 60.0
"""Seconds until unknown workers are looked up again."""
SOON = 10.0
"""Seconds until what is expected soon is looked up again."""
KEEP_EVERY = 60.0
"""Seconds between two looks at the API that the history keeps, when no slice changes."""


def no_token(keys: Sequence[str]) -> str:
    """Return what waits for a token of GitHub, and how the watcher gets one."""
    return (
        f"There is no token for GitHub, so {', '.join(keys)} in fleet_git_keys "
        f"{'is' if len(keys) == 1 else 'are'} not registered for new machines; slices are set up "
        "without. Set fleet_github_token in a vault file of the inventory, with "
        "vault_password_file in ansible.cfg"
    )


class Look:
    """The looks of one watcher. `busy` returns the slices that a playbook works on."""

    def __init__(
        self, state: State, report: Report, notes: Notes, busy: Callable[[], set[str]]
    ) -> None:
        self._state = state
        self._report = report
        self._notes = notes
        self._busy = busy
        self._applier: FleetApplier | None = None
        self._stamp = ""
        # A fleet file that could not be read, and the time of the next try.
        self._bad = ""
        self._read_at = 0.0
        self._kept_at = 0.0
        self._kept: list[tuple[str, str]] = []
        self._hosts_at = 0.0
        self._hosts_soon = False
        self._book_at = 0.0
        self.others: list[str] = []
        """Actions of the plan that belong to no declared slice."""
        self.finishes: dict[str, Finish] = {}
        """The slices that are no longer needed, or cost more than the budget has."""
        self.recreations: dict[str, str] = {}
        """The slices whose chips do not initialise and that are recreated for it, and why."""
        self.purse = Purse(state, report)
        self.queue = QueueLook(state, report)
        # Whether slices were recorded to come, or to rest, since the record was read.
        self._recorded = False
        self.runs: list[dict[str, Any]] = []
        self.looked_at = 0.0
        self.began = 0.0
        """When the last look at the slices began, by the clock of the jobs."""

    def forget(self) -> None:
        """Read everything from the API at the next look."""
        self._applier = None

    def expect_hosts(self) -> None:
        """Ask the workers soon, because a slice was set up."""
        self._hosts_soon, self._book_at = True, 0.0

    def read_settings(self) -> bool:
        """Read the fleet file if it has changed; return whether there are new settings."""
        state = self._state
        stamp = state.ground.stamp()
        if state.settings is not None and stamp == self._stamp:
            return False
        if state.settings is not None and stamp == self._bad and state.clock.now() < self._read_at:
            return False
        try:
            settings = read_settings(state.stop.is_set)
            settings.fleet()
        except (PlayError, TpuError, OSError, ValueError, KeyError) as error:
            # Use the last valid version until the file can be read again.
            self._report.worse("settings", str(error))
            tries = state.memory.troubles["settings"].count
            self._read_at = state.clock.now() + trouble.pause(tries, SOON, LONGEST)
            self._bad = stamp
            return False
        self._report.better("settings")
        state.settings, self._stamp = settings, stamp
        if settings.unregistered:
            self._report.worse("github", no_token(settings.unregistered))
        else:
            self._report.better("github")
        return True

    def at_slices(self) -> None:
        """Read the state of the slices, and what happened to them."""
        state = self._state
        if state.settings is None:
            return
        if self._applier is None or self._recorded:
            self._recorded = False
            client = state.settings.client()
            fleet, book = state.settings.fleet(), state.settings.rest_book(client)
            self._applier = FleetApplier(apis_of(client, fleet), fleet, rest=book.read)
        self.looked_at = now = state.clock.now()
        self.began = boottime()
        plan = self._applier.plan()
        world = self._applier.world
        if world is None:
            return
        state.seen = seen.slices_of(self._applier.fleet, world, plan)
        self.others = seen.other_actions(plan)
        state.memory, messages = decide.notice(state.memory, state.seen, now)
        messages += seen.grant_messages(self._applier.fleet, world, plan, now)
        self._report.tell(messages)
        self.purse.look(self._applier.fleet, world)
        if self.purse.presses:
            # What the slices do has to be known before they are stopped.
            self.expect_hosts()
        self._recorded = self.queue.look(world, self.runs, not self.purse.forbids)
        stuck = seen.stuck(plan)
        for name, text in stuck.items():
            self._report.worse(f"stuck:{name}", text)
        self._end_troubles(stuck)

    def _end_troubles(self, stuck: Mapping[str, str]) -> None:
        """End the troubles of slices that are not what they were any more."""
        state = self._state
        ready = state.ready
        for key in list(state.memory.troubles):
            kind, _colon, name = key.partition(":")
            over = {
                "stuck": name not in stuck,
                "setup": name not in ready,
                "rest": name not in ready,
                "chips": name not in ready,
                "away": not any(decide.is_of(name, one) for one in ready),
            }
            if over.get(kind):
                self._report.better(key)

    def at_hosts(self) -> None:
        """Ask the workers, if that is due."""
        state, settings = self._state, self._state.settings
        now = state.clock.now()
        book = seen.book_of(state.seen)
        news = book != state.memory.book
        due = now - self._hosts_at >= state.options.hosts_interval or self._hosts_soon
        rest = SOON if self._hosts_soon else BOOK_REST
        if settings is None or not book or not (due or news) or now - self._book_at < rest:
            return
        self._book_at = now
        known = read_known(state.ground.sources, os.environ)
        if news or known is None:
            known = self._read_workers()
        if known is None:
            self._hosts_soon = False
            return
        self._ask(settings, known, book, now)

    def _ask(self, settings: Settings, known: Known, book: str, now: float) -> None:
        """Ask the workers, and take what they say."""
        state, names, busy = self._state, self._state.ready, self._busy()
        # Slices that a playbook works on are not evaluated.
        there = [name for name in names if name not in busy]
        looks = ask_hosts.ask(known.fleet, there, self._notes.places())
        self.keep(looks)
        declared = {name: settings.runs_on(name) for name in names}
        heard = hear(state.memory, state.seen, looks, declared, state.clock.now())
        told = dict.fromkeys(heard.known_already, now)
        outbox = replace(heard.memory.outbox, told={**heard.memory.outbox.told, **told})
        complete = all(_has_all(one, looks) for one in state.seen if one.name in names)
        state.memory = replace(
            heard.memory, outbox=outbox, book=book if complete or busy else state.memory.book
        )
        self._look_after(looks, declared)
        self._hosts_at, self._hosts_soon = now, self._look_at_chips(looks)
        self.runs = heard.runs
        self._report.tell(heard.messages)
        for host, says in heard.away.items():
            self._report.worse(f"away:{host}", says)
        answers = [pair for hosts in looks.values() for pair in hosts.items()]
        self._report.better(*(f"away:{host}" for host, said in answers if said.reached))

    def keep(self, looks: Looks) -> None:
        """Keep in the history what was seen, and publish the page."""
        state, settings = self._state, self._state.settings
        now, phases = state.clock.now(), [(one.uid, one.phase) for one in state.seen]
        news = bool(looks) or phases != self._kept or now - self._kept_at >= KEEP_EVERY
        world = self._applier.world if self._applier is not None else None
        if not news or settings is None or world is None:
            return
        self._kept, self._kept_at = phases, now
        self._notes.looked(settings, world, state.seen, looks, self.purse.facts())
        trouble_with_it = self._notes.publish(settings)
        if trouble_with_it:
            self._report.worse("page", trouble_with_it)
        else:
            self._report.better("page")

    def _look_at_chips(self, looks: Looks) -> bool:
        """Find slices whose chips do not initialise; return whether to ask them again soon."""
        state, soon = self._state, False
        self.recreations = {}
        for one in state.seen:
            if one.name not in looks:
                continue
            known, now = state.memory.slice(one.name), state.clock.now()
            paid = not (self.purse.forbids or self.purse.acts)
            verdict = chips.judged(known, one, looks[one.name], now, paid)
            # What is seen now may be over when the playbook can begin.
            soon = soon or verdict.soon or bool(verdict.recreate)
            if verdict.recreate:
                self.recreations[one.name] = verdict.recreate
            if verdict.trouble:
                self._report.worse(f"chips:{one.name}", verdict.trouble)
            elif all(host.reached for host in looks[one.name].values()):
                self._report.better(f"chips:{one.name}")
        return soon

    def _look_after(self, looks: Looks, declared: Mapping[str, Sequence[str]]) -> None:
        """Find the slices that are no longer needed, or cost more than the budget has."""
        state = self._state
        self.finishes = self._held(looks)
        for one in state.seen:
            if one.name not in looks or one.want.on_finish == KEEP:
                continue
            known, finish = after.look_after(
                state.memory.slice(one.name),
                one,
                looks[one.name],
                declared[one.name],
                state.clock.now(),
                one.want.on_queue and self.queue.awaits(one.name),
            )
            state.memory = state.memory.with_slice(one.name, known)
            if finish is not None:
                self.finishes.setdefault(one.name, finish)
            elif after.in_use(looks[one.name]):
                self._report.better(f"rest:{one.name}")

    def _held(self, looks: Looks) -> dict[str, Finish]:
        """Stop runs for a spent budget; return the slices to stop or delete for it."""
        if not self.purse.acts:
            return {}
        known = read_known(self._state.ground.sources, os.environ)
        return self.purse.measures(looks, known.fleet if known else None)

    def _read_workers(self) -> Known | None:
        """Read where the workers are now."""
        try:
            read_workers(self._state.stop.is_set)
        except PlayError as error:
            LOG.warning("the workers cannot be read: %s", shown_text(str(error)))
            return None
        return read_known(self._state.ground.sources, os.environ)


def _has_all(one: SliceSeen, looks: Looks) -> bool:
    return len(looks.get(one.name, ())) >= len(one.addresses)
