"""Is this worker ready for an attempt: its turn, its disks, its chips, its secrets, its folders."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Protocol

from ..decide.config import Config
from ..decide.gang_state import GATHERING, Gang
from ..decide.member import Order
from ..decide.run_states import ENDED, RUNNING
from . import dataset_place, devices, listeners, preparation, processes, secrets, terminal
from .cache_watch import CompileCache
from .hand import Hand
from .preparation import Preparation
from .turns import Turns

_LOOKS = 5  # ticks between two looks at what is expensive to look at
# Seconds: for the end of all programs and for the release of the fence; between looks at them.
_RELEASE, _PAUSE = 5.0, 0.05


def marked(config: Config) -> set[int]:
    """Return the processes of a run on this worker that are its user's."""
    return processes.marked(
        {
            "TPU_FLEET_RUN": config.run,
            "TPU_FLEET_WORKER": str(config.worker),
            "TPU_FLEET_PROGRESS": str(config.paths.user / "progress.json"),
        },
        terminal.uid_of(config.user),
    )


def of_run(config: Config, parent: int | None = None) -> list[int]:
    """Return the processes of a run on this worker, and those below its program's parent."""
    found = marked(config)
    if parent is not None:
        # A file of the user's names the parent: of what is below only the user's count.
        uid = terminal.uid_of(config.user)
        found |= {one for one in processes.descendants(parent) if processes.belongs_to(one, uid)}
    return sorted(found - {os.getpid()})


class Leads(Protocol):
    """What is asked of the leader, where this worker leads the gang."""

    gang: Gang

    def stuck(self) -> bool:
        """Say whether the gang could not start, for long by now, even if it were its turn."""

    def ending(self) -> bool:
        """Say whether a worker that answers still has a program that runs."""

    def ended(self) -> Gang | None:
        """Return the gang, if its last attempt is over on all workers."""


class Readiness:
    """Looks before a start as often as is worth it."""

    def __init__(
        self,
        config: Config,
        keeper: secrets.Keeper,
        leader: Leads | None,
        boot_id: str,
        hand: Hand,
        cache: CompileCache,
    ) -> None:
        self.blocked = ""
        self.disk_news = ""
        self._config = config
        self._secrets = keeper
        self._leader = leader
        self._hand = hand
        self._preparation = Preparation(config, hand)
        self._cache = cache
        self._queue: dict[str, Any] | None = None
        self._turns: Turns | None = None
        # On each slice that the run has, one agent takes part in its queue.
        if config.place[1] == 0:
            position = config.position if config.multislice else None
            self._turns = Turns(
                config.paths.queue, config.run, config.user, boot_id, config.timing.lost, position
            )
        self._obstacle = ""
        self._looked: float | None = None
        self._was_queued = False
        self._disk_looked: float | None = None
        self._low = ""
        self._builds: dict[str, str] = {}
        self._builds_looked: float | None = None
        self._needs_tpu = preparation.needs_tpu(config)

    @property
    def error(self) -> str:
        """Return what is wrong with the queue; empty when nothing is."""
        return self._turns.error if self._turns else ""

    def take_chips(self) -> None:
        """Have libtpu's lock file belong to the run's user; raise CannotStart if chips are held."""
        if not self._needs_tpu:
            return
        root = self._config.paths.root
        held = devices.obstacle(root)
        if held:
            raise terminal.CannotStart(held)
        account = terminal.account_of(self._config.user)
        devices.give_lock_file(root, account.pw_uid, account.pw_gid)

    def strangers_port(self) -> str:
        """Say which other user's process has a port that the program needs; empty if none has."""
        uid = terminal.uid_of(self._config.user)
        for what, port in self._ports(self._config.leader):
            found = listeners.taken(port)
            if found is not None and found[1] != uid:
                return f"port {port} ({what}) is held by {found[0]}"
        return ""

    def _ports(self, coordinator: bool) -> list[tuple[str, int]]:
        """Return the ports on which the program may listen, with or without the coordinator's."""
        config, found = self._config, []
        if coordinator:
            found.append(("TPU_FLEET_COORDINATOR", config.coordinator_port))
        if config.place[1] == 0 and config.slices:
            found.append(("MEGASCALE_PORT", config.megascale_port))
        return found

    @property
    def checkpoints_on(self) -> str:
        """Return on what the checkpoints are; empty when that is not known."""
        return self._preparation.place

    def close(self) -> None:
        """End what is being looked at."""
        self._preparation.close()

    def forget(self) -> None:
        """Look at everything again before the next start."""
        self._looked = None
        self._preparation.forget()
        self._cache.forget()

    def look(self, order: Order | None, waiting: bool, running: bool) -> None:
        """Take a look; `waiting` says whether an attempt may start here soon."""
        self._look_at_disks()
        self._take_turn(order, running)
        if not waiting:
            self.blocked, self._looked = "", None
            if not running:
                self._look_at_builds()
            return
        queued = self._queue is not None
        if self._leader is None:
            # As long as worker 0 says so, our chips are not looked at, and we are not ready.
            queued = order is not None and order.queue is not None
        now = time.monotonic()
        old = self._looked is None or now - self._looked > _LOOKS * self._config.timing.tick
        if old or queued != self._was_queued:
            self._obstacle, self._looked = self._expensive(queued), now
            self._was_queued = queued
            self._builds = self._preparation.builds()
        self.blocked = self._obstacle
        if not self.blocked and not queued:
            gang = self._leader.gang if self._leader else None
            heard = gang is not None or order is not None
            theirs = order.cache if order else ""
            filling = self._cache.obstacle(now, heard, theirs)
            self.blocked = filling or self._preparation.obstacle(gang)

    def leave(self) -> None:
        """Let the next run have the TPU, until this one is started again."""
        if self._turns:
            self._turns.leave(for_good=False)

    def release(self) -> None:
        """Let an heir begin at once, where nothing of the gang's last attempt is alive any more."""
        until = time.monotonic() + _RELEASE
        gang = self._ended(until)
        while gang is not None and marked(self._config) - {os.getpid()}:
            if time.monotonic() > until:
                return
            time.sleep(_PAUSE)
        if gang is not None:
            self._preparation.release(gang, _RELEASE)

    def _ended(self, until: float) -> Gang | None:
        """Return the gang once its last attempt is over on all workers; None where it is not.

        The programs of the others may save for longer than the one of this worker.
        """
        if self._leader is None:
            return None
        while self._preparation.releases and self._leader.ending() and time.monotonic() < until:
            time.sleep(_PAUSE)
        return self._leader.ended()

    def for_report(self) -> dict[str, Any]:
        """Return what the leader is to know."""
        ready = self._preparation
        return {
            "blocked": self.blocked,
            "builds": self._builds,
            "floor": ready.floor,
            "run_id": ready.run_id,
            "elsewhere": ready.elsewhere,
            "named": ready.named,
            "queue": self._queue,
            "no_turn": self._no_turn(),
        }

    def _no_turn(self) -> bool:
        if self._turns is None:
            return self._was_queued
        return self._needs_tpu and not self._turns.holding

    def _take_turn(self, order: Order | None, running: bool) -> None:
        if self._turns is None:
            return
        phase = order.phase if order else ""
        if self._leader is not None:
            phase = self._leader.gang.phase
        self._needs_tpu = preparation.needs_tpu(self._config)
        if not self._needs_tpu or phase in ENDED:
            self._turns.leave(for_good=True)
            self._queue = None
            return
        at_work = running or phase == RUNNING
        if self._leader is not None:
            stuck, keep = self._leader.stuck(), not self._leader.gang.yields
        else:
            stuck, keep = order is None or order.stuck, order is not None and not order.yields
        found = self._turns.ask(stuck, at_work, keep)
        self._queue = found if phase == GATHERING and not at_work else None

    def _expensive(self, queued: bool) -> str:
        left = marked(self._config) - {os.getpid()}
        if left:
            # Its agent lost its memory: nothing of the run may be alive when an attempt begins.
            uid = terminal.uid_of(self._config.user)
            processes.send(left, signal.SIGKILL, uid)
            return "an earlier attempt is being ended"
        try:
            terminal.check(self._config, self._hand)
        except terminal.CannotStart as error:
            return str(error)
        # The program of a single worker need not listen: only when it failed the port is looked at.
        for what, port in self._ports(self._config.leader and self._config.workers > 1):
            found = listeners.taken(port)
            if found is not None:
                return f"port {port} ({what}) is held by {found[0]}"
        # While another run has its turn, its program holds the chips by right.
        if self._needs_tpu and not queued:
            held = devices.obstacle(self._config.paths.root)
            if held:
                return held
        return self._secrets.obstacle() or self._without_data()

    def _without_data(self) -> str:
        """Return why a data set of the run is not there; empty when all are."""
        lacks = (
            dataset_place.lacking(one["name"], one["path"], one["id"])
            for one in self._config.datasets
        )
        return next(filter(None, lacks), "")

    def _look_at_builds(self) -> None:
        """Notice that a run which has failed would find another environment."""
        now, pause = time.monotonic(), _LOOKS * self._config.timing.tick
        if self._builds_looked is None or now - self._builds_looked > pause:
            self._builds, self._builds_looked = self._preparation.builds(), now

    def _look_at_disks(self) -> None:
        """Notice once when a disk becomes low, also while the program runs."""
        now = time.monotonic()
        if self._disk_looked is not None and now - self._disk_looked < self._config.timing.disk:
            return
        self._disk_looked = now
        folder = self._config.paths.log.parent
        wanted = self._config.min_free_bytes
        low = preparation.low(folder, self._hand.free_bytes(folder), wanted)
        low = low or self._preparation.low
        if low and not self._low:
            self.disk_news = low
        self._low = low
