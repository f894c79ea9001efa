"""What `top` knows: a look at the API every so often, and what the workers say meanwhile."""

from __future__ import annotations

import contextlib
import getpass
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet

from ..commands.status import Looked, Row, look_at_fleet, rows_of
from ..queue.glance import Glance, glance
from ..workers.ask.run_answers import Answers, ask_for_runs
from ..workers.ask.run_follow import Heard, RunFollower
from ..workers.inventory.ansible_config import inventory_sources
from ..workers.inventory.fleet_facts import FleetView
from ..workers.inventory.hosts import NO_CONFIG, Known
from ..workers.inventory.lookup import note_names, read_known
from .closer import Looker
from .lines import Now, rows_known

API_SECONDS = 30.0
"""Seconds between looks at the API, at least."""
SHARE = 0.02
"""The share of a core that these looks may take: of a large fleet they are rarer."""


class Source:
    """Asks the API in a thread, and follows the workers."""

    def __init__(
        self,
        every: int,
        ask_api: Callable[[], Looked] = look_at_fleet,
        stored: Callable[[], Known | None] | None = None,
    ) -> None:
        known = (stored or stored_fleet)()
        self.follower = RunFollower(known or Known(NO_CONFIG, Fleet({})), every)
        self._ask_api = ask_api
        self._rows: list[Row] = rows_known(known) if known else []
        self._view = FleetView()
        self._api_at: float | None = None
        self._problem = ""
        self._fleet, self._queue = "", Glance()
        self.looker = Looker()
        self._ask_now, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._look, name="api", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self.follower.start()
        self.looker.start()
        self._thread.start()

    def stop(self) -> None:
        """End everything."""
        self._keep_names()
        self._over.set()
        self._ask_now.set()
        self.looker.stop()
        self.follower.stop()

    def ask_now(self) -> None:
        """Ask the API without waiting for its turn."""
        self._ask_now.set()

    def now(self) -> Now:
        """Return what is known at this moment."""
        told = (self._problem, self._queue.problem, self.follower.trouble)
        problems = tuple(text for text in told if text)
        heard = dict(self.follower.heard)
        return Now(
            self._rows,
            heard,
            self._view,
            time.monotonic(),
            self._api_at,
            problems,
            self._fleet,
            time.time(),
            _login(),
            self.looker.found,
            self._queue,
        )

    def _look(self) -> None:
        while not self._over.is_set():
            self._ask_now.clear()
            begun = time.thread_time()
            try:
                looked = self._ask_api()
            # Whatever it is: the screen says it, and the next look may succeed.
            except Exception as error:
                self._problem = f"The API cannot be asked: {error}"
            else:
                self.follower.aim(looked.known)
                self._rows, self._view = rows_of(looked.inventory.workers(), {}), looked.view
                self._api_at, self._problem, self._fleet = time.monotonic(), "", looked.name
                self._keep_names()
                self._queue = glance(looked.inventory, time.time())
            self._ask_now.wait(max(API_SECONDS, (time.thread_time() - begun) / SHARE))

    def _keep_names(self) -> None:
        """Keep the names of slices, workers and runs, which TAB completes."""
        targets, heard = set(self.follower.known.fleet.targets), dict(self.follower.heard)
        runs = sorted({run.run for one in heard.values() for run in one.runs})
        answer = {name for name, one in heard.items() if not one.says}
        note_names(self.follower.known, runs, whole=bool(targets) and answer >= targets)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def stored_fleet() -> Known | None:
    """Return the workers as the fleet's ssh configuration has them, if there is one."""
    with contextlib.suppress(Exception):
        return read_known(inventory_sources(os.environ, Path.cwd()), os.environ)
    return None


def once(looked: Looked) -> Now:
    """Ask all workers once, over a connection each."""
    answers = ask_for_runs(looked.known, list(looked.known.fleet.targets), retry=False)
    at = time.monotonic()
    rows = rows_of(looked.inventory.workers(), {})
    heard = heard_in(answers, at)
    clock = time.time()
    queue = glance(looked.inventory, clock)
    return Now(rows, heard, looked.view, at, at, fleet=looked.name, clock=clock, queue=queue)


def heard_in(answers: Answers, at: float) -> dict[str, Heard]:
    """Return the answers as those of a kept connection are."""
    found = {}
    for result in answers.results:
        runs = tuple(run for run in answers.runs if run.host == result.name)
        says = "" if result.ok else result.says or "it gave no answer"
        found[result.name] = Heard(at, runs, answers.disks.get(result.name), says)
    return found
