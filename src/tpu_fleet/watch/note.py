"""What the watcher keeps in the fleet's history, and the page that it publishes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import ENDED, READY, World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.usage import usage_at

from ..history import look, stops
from ..history.record import places_known
from ..history.store import Event, History, HistoryError, Look
from ..notify.message import Message
from ..page.publish import Published
from ..workers.ask.run_view import Run
from ..workers.inventory.fleet_facts import view_of
from .decide import SliceSeen
from .ground import Ground, Settings
from .hosts import HostSeen

LOG = logging.getLogger("tpu-fleet-watch")


class Notes:
    """The history as the watcher writes it; trouble with it is logged once, and harms nothing."""

    def __init__(self, ground: Ground, page: str, logs: bool = True) -> None:
        self._ground = ground
        self._history: History | None = None
        self._messages: list[Event] = []
        self._said = ""
        self._page = Published(page, logs) if page else None

    def places(self) -> Mapping[str, Any]:
        """Return how far the past of each worker's runs is known."""
        try:
            return places_known(self._open())
        except HistoryError as error:
            self._trouble(str(error))
            return {}

    def told(self, messages: Sequence[Message]) -> None:
        """Keep messages for people, with the next look."""
        self._messages += [
            Event(
                message.at,
                message.slice,
                message.run,
                -1,
                message.event,
                detail={"title": message.title, "text": message.text},
            )
            for message in messages
        ]

    def looked(
        self,
        settings: Settings,
        world: World,
        slices: Sequence[SliceSeen],
        looks: Mapping[str, Mapping[str, HostSeen]],
        budget: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep what the API and the workers said, and what is left of the budget."""
        found = Look(time.time(), events=list(self._messages))
        params = {**settings.params, "prices": settings.prices or None}
        usage = usage_at(params, world.nodes, world.queued, world.unreachable, world.now)
        look.of_view(found, view_of(usage, list(map(described, filter(is_missing, slices)))))
        found.facts["budget"] = budget
        if looks:
            of_hosts(found, looks)
            self._note_stops(settings, looks)
        try:
            self._open().add(found)
            self._messages = []
            self._said = ""
        except HistoryError as error:
            self._messages = self._messages[-1000:]
            self._trouble(str(error))

    def _note_stops(self, settings: Settings, looks: Mapping[str, Mapping[str, HostSeen]]) -> None:
        """Keep who stopped runs, for the slices that the watcher creates again."""
        runs = [run for _host, said, there in _runs_in(looks) if said.reached for run in there]
        try:
            stops.note(settings.state_dir, runs)
        except OSError as error:
            self._trouble(str(error))

    def publish(self, settings: Settings) -> str:
        """Publish the page if that is due; return what is the matter with it."""
        if self._page is None:
            return ""
        try:
            self._page.publish(self._open(), settings.name, settings.client)
        except (HistoryError, TpuError, OSError) as error:
            return str(error)
        return ""

    def close(self) -> None:
        """Close the history."""
        if self._history is not None:
            self._history.close()

    def _open(self) -> History:
        if self._history is None:
            self._history = History(self._ground.history)
        return self._history

    def _trouble(self, text: str) -> None:
        if text != self._said:
            LOG.warning("what was seen is not kept: %s", text)
        self._said = text


def is_missing(one: SliceSeen) -> bool:
    """Return whether a slice has no node, and should have one."""
    return not one.uid and one.phase not in (READY, ENDED)


def described(one: SliceSeen) -> dict[str, Any]:
    """Describe a slice without a node, as `missing_slices` does."""
    return {
        "name": one.name,
        "phase": one.phase,
        "text": one.status.text,
        "accelerator_type": ", ".join(one.want.types),
        "zone": ", ".join(one.want.zones),
        "tier": one.want.tier,
    }


def of_hosts(found: Look, looks: Mapping[str, Mapping[str, HostSeen]]) -> None:
    """Add what the workers said."""
    hosts = [(name, host, said) for name, all_ in looks.items() for host, said in all_.items()]
    look.of_workers(
        found,
        {(n, host): "" if said.reached else said.says or "no answer" for n, host, said in hosts},
    )
    look.of_runs(found, [run for _host, _said, there in _runs_in(looks) for run in there])


def _runs_in(
    looks: Mapping[str, Mapping[str, HostSeen]],
) -> Iterator[tuple[str, HostSeen, list[Run]]]:
    """Yield each worker with what it said, and its runs."""
    for name, hosts in looks.items():
        for host, said in hosts.items():
            yield host, said, said.runs_of(name, host)
