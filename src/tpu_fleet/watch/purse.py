"""Count what the slices cost, and do what the budget says when it is spent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._fleet import spend as spending
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import (
    Over,
    Rate,
    Spend,
    SpendBook,
    book_of_spend,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.budget import Budget
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.prices import parse_prices
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet as Book

from ..notify.message import Message
from . import budget as decisions
from .decide import Finish
from .halt import halt
from .hosts import HostSeen
from .report import Report
from .state import State

LOG = logging.getLogger("tpu-fleet-watch")
SHARED_EVERY = 60.0
"""Seconds until the count is written to the project's metadata again."""
Halt = Callable[[Book, Mapping[str, Sequence[str]], str], dict[str, str]]


class Purse:
    """The money of one fleet, as one watcher counts it."""

    def __init__(self, state: State, report: Report, stop: Halt = halt) -> None:
        self._state = state
        self._report = report
        self._stop = stop
        self._shared_at = 0.0
        self._rates: dict[str, Rate | None] = {}
        self._unpriced: dict[str, str] = {}
        self._budget = Budget()
        self._would_cost = False
        self.over: Over | None = None
        """The limit that is spent, if one is."""

    @property
    def spend(self) -> Spend:
        """The count, which the memory keeps."""
        return Spend.from_dict(self._state.memory.spend)

    @property
    def acts(self) -> bool:
        """Whether the budget is spent and asks to stop or delete slices."""
        return self.over is not None and self._budget.acts

    @property
    def forbids(self) -> bool:
        """Whether what is created now would cost more than the budget has."""
        return self.acts and self._would_cost

    @property
    def presses(self) -> bool:
        """Whether a slice that is there costs more than the budget has."""
        cost = decisions.costing(self._state.seen, self._rates) if self.acts else set()
        return bool(cost & set(self._state.ready))

    def facts(self) -> dict[str, Any] | None:
        """Return the budget with what is spent and left; None without one."""
        if not self._budget.limits:
            return None
        return spending.facts(self._budget, self.spend, self.spend.at, self._unpriced)

    def look(self, fleet: Fleet, world: World) -> None:
        """Count what a look at the API has seen. Raises TpuError when it cannot be kept now."""
        settings = self._state.settings
        self.over = None
        if settings is None:
            return
        self._budget = Budget.read(settings.params.get("budget"))
        if not self._budget.limits:
            return
        prices, grant = parse_prices(settings.prices or None), fleet.grant
        book = book_of_spend(settings.client(), fleet.owner)
        spend = self._known(book, world)
        self._rates = spending.rates_of(world, fleet.owner, grant, prices)
        self._unpriced = spending.unpriced_of(world, fleet.owner, grant, prices)
        if self._unpriced:
            told = decisions.uncounted(self._unpriced, self._state.clock.now())
            self._report.tell([told])
        # Within a known grant nothing is created that costs.
        self._would_cost = grant.unrestricted
        self._keep(spending.count(spend, world, fleet.owner, grant, prices))
        now = world.now.timestamp()
        self.over = spending.over(self._budget, self.spend, now)
        if self.over is not None:
            self._share(book, now)
            self._report.tell([self._spent(self.over)])
            self._hold(fleet)
        elif now - self._shared_at >= SHARED_EVERY:
            self._share(book, now)

    def _known(self, book: SpendBook, world: World) -> Spend:
        """Return the count to go on with: the own one, or that of the watcher before."""
        own = self.spend
        if own.at and world.now.timestamp() - own.at < SHARED_EVERY:
            return own
        return spending.newest([own, book.read()])

    def _keep(self, spend: Spend) -> None:
        self._state.memory = replace(self._state.memory, spend=spend.to_dict())

    def _share(self, book: SpendBook, now: float) -> None:
        """Write the count where the watcher of another computer finds it."""
        try:
            self._keep(book.write(self.spend))
            self._shared_at = now
        except TpuError as error:
            # It is in the memory, and is written with one of the next looks.
            LOG.info("what was spent is not in the project's metadata yet: %s", error.message)

    def _spent(self, over: Over) -> Message:
        cost = decisions.costing(self._state.seen, self._rates)
        return decisions.spent(over, self._budget.on_exceed, cost, self._state.clock.now())

    def _hold(self, fleet: Fleet) -> None:
        """Keep slices from being created that would cost."""
        state = self._state
        if state.settings is None or not self.acts:
            return
        rests = self._decide({}).rests
        if rests:
            at = self.spend.at
            book = state.settings.rest_book(state.settings.client())
            book.write({name: replace(rest, at=at) for name, rest in rests.items()})
            LOG.warning("not created, because the budget is spent: %s", ", ".join(sorted(rests)))

    def _decide(self, looks: Mapping[str, Mapping[str, HostSeen]]) -> decisions.Measures:
        state = self._state
        if self.over is None or not self.acts:
            return decisions.Measures()
        return decisions.measures(
            self.over,
            self._budget.on_exceed,
            state.seen,
            decisions.costing(state.seen, self._rates),
            state.memory,
            looks,
            self._would_cost,
            state.clock.now(),
        )

    def measures(
        self, looks: Mapping[str, Mapping[str, HostSeen]], book: Book | None
    ) -> dict[str, Finish]:
        """Stop the runs that have to stop; return the slices to stop or delete."""
        found, state = self._decide(looks), self._state
        if found.stop and book is not None:
            for host, says in self._stop(book, found.stop, decisions.BY).items():
                LOG.warning("%s: its runs cannot be stopped: %s", host, says)
        if self.over is not None:
            now = state.clock.now()
            kept = [decisions.goes_on(n, why, self.over, now) for n, why in found.kept.items()]
            self._report.tell(kept)
        return dict(found.finishes)
