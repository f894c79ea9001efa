"""Decide whether this watcher may act: of several watchers of one fleet, one leads."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ansible_collections.tpu.fleet.plugins.module_utils._compute.client import Compute
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import PASSING, TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis

from .ground import Settings
from .lease import ProjectLease
from .report import Report
from .state import State

LOG = logging.getLogger("tpu-fleet-watch")


class Lead:
    """The lead of one watcher, which a lease in the project's metadata gives it."""

    def __init__(self, state: State, report: Report, lost: Callable[[], None]) -> None:
        self._state = state
        self._report = report
        self._lost = lost
        self._until = 0.0
        self.lease: ProjectLease | None = None
        self.leads = False

    def take(self, now: float) -> bool:
        """Take or renew the lead; return whether this watcher leads. TpuError: no answer."""
        self.leads = self._taken(now)
        return self.leads

    def may_act(self, now: float) -> bool:
        """Return whether playbooks may begin; without a lease, if there can be none."""
        holds = self.lease is not None and self.lease.holds(now)
        return holds or "lease" in self._state.memory.troubles

    def forget_client(self) -> None:
        """Create a new client, which reads the credentials again; the lease stays."""
        if self.lease is not None:
            self._until = self.lease.until
        self.lease = None

    def forget_lease(self) -> None:
        """Begin without a lease, because the fleet is another one."""
        self._until = 0.0

    def end(self) -> None:
        """Release the lease."""
        if self.lease is not None and self.lease.holds(self._state.clock.now()):
            try:
                self.lease.give_back()
            except TpuError as error:
                LOG.info("the lease was not released, it expires by itself: %s", error.message)
        self.leads = False

    def _taken(self, now: float) -> bool:
        state = self._state
        if state.settings is None:
            return False
        if self.lease is None:
            self.lease = self._new_lease(state.settings)
        lease = self.lease
        if self.leads and lease.holds(now) and lease.is_fresh(now):
            return True
        led = self.leads
        try:
            leads = lease.take(now)
        except TpuError as error:
            if not isinstance(error, PASSING):
                # Only watchers on this computer now exclude each other, by the folder's lock.
                text = f"{error.message} Watchers of other computers are not seen."
                self._report.worse("lease", text)
                return True
            if led and not lease.holds(state.clock.now()):
                self._lose("it could not be renewed in time")
            if lease.holds(state.clock.now()):
                return True
            raise
        self._report.better("lease")
        if leads and not led:
            LOG.info("this watcher is active now; its lease lasts %g s", state.options.lease)
        if not leads and led:
            self._lose(f"{lease.other} holds it")
        return leads

    def _new_lease(self, settings: Settings) -> ProjectLease:
        apis = GoogleApis(settings.client())
        return ProjectLease(
            Compute(apis),
            lambda: apis.transport("compute").server_time().timestamp(),
            settings.owner,
            self._state.ground.holder,
            self._state.options.lease,
            self._until,
        )

    def _lose(self, why: str) -> None:
        """Stop running playbooks, because another watcher may have started the same."""
        LOG.warning("the lease is lost, because %s; standing by", why)
        self.leads = False
        self._lost()
