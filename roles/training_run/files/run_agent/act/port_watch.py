"""When the ports between the workers are tested, and what was found.

The test holds no port and ends after a few seconds. A start waits for the first one, and begins
whatever it found: a program need not use each of these ports.
"""

from __future__ import annotations

from typing import Any

from ..decide import starts
from ..decide.config import Config
from . import port_test, preparation, worker_ports
from .port_test import PortTest
from .worker_ports import Gang, Target, Tried

_AGAIN = 60.0  # between two tests of a late start; doubled each time
_MOST_AGAIN = 6
_LEADER_AGAIN = 60.0
_OVER = 900.0  # JAX and torch_xla give up before


class PortWatch:
    """Tests before the first attempt of a run on this worker, and when a start is late."""

    def __init__(self, config: Config, attempts: int) -> None:
        self._config = config
        self._test: PortTest | None = None
        self._of_leader = False
        # The first attempt here waits until the ports were tested.
        self.testing = config.workers > 1 and attempts == 0
        self._times = 0
        self._next = 0.0
        self._leader_next = 0.0
        self.found: list[Tried] = []
        """What the last test showed, but for the run agents' own port."""
        self.leader_found = ""
        """What a worker sees of the port of a worker 0 that does not answer."""

    def look(self, all_here: bool) -> None:
        """Begin the test before the first attempt, once all workers are there; take results."""
        if self.testing and all_here and self._test is None:
            self._begin(self._wanted())
        if self._test is None:
            return
        found = self._test.look()
        if found is not None:
            self._take(found)

    def look_at_start(self, now: float, age: float | None, history: list[dict[str, Any]]) -> None:
        """Test again when a start is late; `age` is the seconds since it began, None if it is over.

        What could not be reached is of the past when the program has come to a step, or is at work
        for long and reports no steps.
        """
        if age is None or (age > _OVER and starts.usual(history) is None):
            self.found = []
            return
        due = age > starts.late_after(history) and now >= self._next and self._times < _MOST_AGAIN
        if due and self._test is None and self._config.workers > 1:
            self._next = now + _AGAIN * 2.0**self._times
            self._times += 1
            self._begin(self._wanted())

    def look_for_leader(self, now: float) -> None:
        """See why worker 0 does not answer."""
        if self._test is None and now >= self._leader_next:
            self._leader_next = now + _LEADER_AGAIN
            config = self._config
            self._of_leader = True
            self._begin([Target(0, config.hosts[0], config.peer_port)])

    def begin(self) -> None:
        """Count the tests of a late start from the beginning, because an attempt begins."""
        self.testing, self._times, self._next = False, 0, 0.0

    def heard(self) -> None:
        """Forget why worker 0 did not answer, because it does."""
        self.leader_found, self._leader_next = "", 0.0

    def for_report(self) -> dict[str, Any]:
        """Return what the leader is to know."""
        blocked = [one for one in self.found if one.blocked]
        return {
            "testing": self.testing,
            "unreached": [[one.worker, one.port, one.result, one.what] for one in blocked],
        }

    def close(self) -> None:
        """End a test."""
        if self._test is not None:
            self._test.close()
            self._test = None

    def _wanted(self) -> list[Target]:
        config = self._config
        sizes = tuple(len(hosts) for hosts in config.slices) or (config.workers,)
        gang = Gang(
            tuple(config.hosts),
            config.worker,
            sizes,
            config.peer_port,
            config.coordinator_port,
            config.megascale_port if config.slices else 0,
        )
        versions = port_test.versions_of(config.venv, config.paths.records / "venvs")
        needs = worker_ports.needed(gang, versions, config.env, preparation.needs_tpu(config))
        # Over that port this worker and worker 0 speak with each other.
        own = [need for need in needs if need.port != config.peer_port]
        return worker_ports.targets(gang, own)

    def _begin(self, wanted: list[Target]) -> None:
        self._test = PortTest(wanted)

    def _take(self, found: list[Tried]) -> None:
        self._test = None
        if self._of_leader:
            self._of_leader = False
            self.leader_found = _of_leader(found, self._config)
        else:
            self.testing, self.found = False, found


def _of_leader(found: list[Tried], config: Config) -> str:
    where = f"worker 0:{config.peer_port}"
    if not found:
        return ""
    if found[0].blocked:
        return f"{where} does not answer: its machine is down, or a firewall is in between"
    return "" if found[0].result == worker_ports.OPEN else f"no run agent listens on {where}"
