"""A person who may write to the bucket whatever she likes, against real queue agents and readers.

The seed and the moves are printed if it fails; TPU_FLEET_HOSTILE_SEED chooses another one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pwd
import random
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import submitters
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import FleetQueue
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Owner
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from queue_commands import declare, tpu_fleet

from tpu_fleet.commands.queued import show
from tpu_fleet.queue.demand import Offer, needs
from tpu_fleet.queue.fleet import QueueOfFleet
from tpu_fleet.queue.view import look

assert submitters.PROGRAMS  # where these are
from queue_agent.decide.messages import PHASES, Order, Report  # noqa: E402
from queue_agent.talk.words import QUEUE  # noqa: E402
from run_agent.talk import keys, wire  # noqa: E402

harness = sys.modules["queue_agent_harness"]
hostility = sys.modules["queue_agent_hostility"]
CRIME, OWN, ESCAPED = hostility.CRIME, hostility.OWN, hostility.ESCAPED
SEED = int(os.environ.get("TPU_FLEET_HOSTILE_SEED", "32"))
AWAY = "FileNotFoundError: [Errno 2] No such file or directory: "
"""What a run agent says that begins when its run is another slice's already: it has no files."""
NORMAL = harness.PATIENCE
"""Seconds in which an honest run is done beside all that Eve has put there."""
READS = 20.0
"""Seconds that one reader may take."""


@dataclass(frozen=True)
class Fleet(QueueOfFleet):
    """A fleet whose nodes the API has; none that a state only names."""

    def node_of(self, owner: Owner) -> Node | None:
        known = owner.slice in self.slices
        return Node("READY", f"node-{owner.slice}") if known else Node("", "")


@dataclass
class Trial:
    """Slices that serve a queue, honest runs, and Eve."""

    lab: Any
    slices: dict[str, int]
    """With how many workers."""
    folder: str
    moves: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        lab = self.lab
        lab.use(self.folder)
        lab.eves = harness.OTHER  # where this is not root, both are one user
        lab.users = {"alice": ["alice", lab.me], "eve": ["eve", lab.eves]}
        lab.declared = [{"name": "digits", "slices": ["elsewhere"]}]
        hers = [f"e{number}-{name}" for number in range(500) for name in range(4)]
        lab.keyed = ["lr-1", "lr-2", "for-pair", *(f"good-{n}" for n in range(500)), *hers]
        for name, count in self.slices.items():
            lab.slice(name, count)
        self.eve = hostility.Eve(lab, random.Random(SEED))  # noqa: S311 - repeatable
        for name in ("lr-1", "lr-2"):
            self.honest(name)

    def honest(self, name: str, **more: Any) -> None:
        """Have a run of alice done, while nothing else happens."""
        says = f"honest-{name}"
        self.eve.keep(*(f"{where}{name}" for where in ("runs/", "ended/", "stop/")), "definitions/")
        self.lab.submit(name, f"echo {says}", **more)
        run = self.lab.state(name)
        self.eve.copies[name] = (run, self.lab.queue.definition(run.definition))
        self.lab.wait(name, "done", NORMAL)
        self.eve.keep()
        self.eve.others.append(name)
        assert any(says in one.log(name) for one in self.lab.workers)

    def go(self, count: int, at_a_time: int) -> None:
        """Let Eve do what she can, and look at everything from time to time."""
        for begin in range(0, count, at_a_time):
            for number in range(begin, min(begin + at_a_time, count)):
                self.moves.append(f"{number} {self.eve.move(number)}")
            self.honest(f"good-{begin}")
            self.look()
            self.eve.release()  # a bell under a hold is one that leaders do not hear

    def look(self) -> None:
        """All readers work, and nothing has happened that may not."""
        self.read()
        begun = [one for one in self.lab.workers if one.process is not None]
        assert [one.root.name for one in begun if one.process.poll() is not None] == []
        logs = {path: path.read_text() for path in self.lab.base.glob("*/*-agent.log")}
        assert [text for text in logs.values() if text.count("Traceback") > text.count(AWAY)] == []
        assert hostility.paths_of(self.lab.base, CRIME) == []
        found = [path for path in self.lab.base.rglob("run.log") if CRIME in path.read_text()]
        assert found == []
        assert hers(self.lab.base) <= {pwd.getpwnam(self.lab.eves).pw_uid}
        escaped = [self.lab.base, Path("/tmp"), Path("/var/lib/tpu-fleet")]  # noqa: S108
        assert [path for top in escaped for path in top.glob(f"{ESCAPED}*")] == []
        for worker in self.lab.workers:
            assert outside(worker.root) == []

    def fleet(self) -> Fleet:
        """Return the fleet as commands on a controller know it."""
        queue = FleetQueue.read({"bucket": self.lab.address})
        assert queue is not None
        client = Client(self.lab.cloud.project, endpoint=self.lab.cloud.url)
        entries = [Slice.read(entry, None) for entry in self.entries()]
        return Fleet(
            queue=queue, slices={one.name: one for one in entries}, users=(), venvs=(), secrets={},
            runs=["digits"], client=lambda: client, login_key=Path("/none"), folder=Path("/none"),
        )  # fmt: skip

    def entries(self) -> list[dict[str, Any]]:
        """Return the slices as the fleet file has them."""
        more = {"accelerator_type": "v4-8", "zone": "us-central2-b"}
        return [{"name": name, **more} for name in self.slices]

    def read(self) -> None:
        """Read the queue as commands and the watcher do, and tidy up."""
        fleet = self.fleet()
        queue = fleet.opened()
        with bounded("runs --queue"):
            view = look(fleet, queue, time.time())
        with bounded("its table"):
            assert plain(printed(view))
        with bounded("its JSON"):
            assert json.dumps(view.to_dict()).isprintable()
        offers = [Offer(name, ("v4-8",), frozenset()) for name in self.slices]
        with bounded("on_queue"):
            needs(view.runs, offers, fleet.limits, now=time.time())
        with bounded("tending"):
            self.tend(queue, fleet)

    def tend(self, queue: Queue, fleet: Fleet) -> None:
        listing = queue.tend(nodes=fleet.node_of)
        for why in listing.refused.values():
            assert why.isprintable()


def hers(base: Path) -> set[int]:
    """Return the users of runs that she had a right to have."""
    logs = base.glob("*/var/log/tpu-fleet/runs/*/run.log")
    return {path.stat().st_uid for path in logs if OWN in path.read_text(errors="replace")}


def printed(view: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        show(view)
    return out.getvalue()


def plain(text: str) -> bool:
    """Say whether a text does nothing to a terminal."""
    return all(line.isprintable() for line in text.split("\n"))


@contextlib.contextmanager
def bounded(what: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    took = time.monotonic() - begun
    assert took < READS, f"{what} took {took:.1f} s"


def outside(root: Path) -> list[str]:
    """Return the files of a worker that are where none may be, and those that give rights."""
    tops = {"etc", "var", "run", "t", "tmp", "proc", "pids", "systemctl", "jobs", "notify"}
    tops |= {"queue-agent.log", "run-agent.log"}
    found = [path.name for path in root.iterdir() if path.name not in tops]
    rooms = {path.name for path in (root / "etc/tpu-fleet").iterdir()}
    found += sorted(rooms - {"queue", "runs"})
    for path in root.rglob("*"):
        seen = path.lstat()
        if stat.S_ISREG(seen.st_mode) and seen.st_mode & 0o6000:
            found.append(str(path))
        if stat.S_ISLNK(seen.st_mode) and not path.resolve().is_relative_to(root):
            found.append(str(path))
    return found


@contextlib.contextmanager
def told(trial: Trial) -> Iterator[None]:
    """Print the moves if something fails."""
    try:
        yield
    except BaseException:
        print(f"seed {SEED}, moves:", *trial.moves, sep="\n")
        for worker in trial.lab.workers:
            print(worker.root.name, worker.says)
        for path in sorted(trial.lab.base.glob("*/*-agent.log")):
            print(path, path.read_text()[-3000:], sep="\n")
        raise


# The other 480 are in the test below.
def test_20_moves_of_hers_start_nothing_of_another_and_stop_no_reader(lab: Any) -> None:
    trial = Trial(lab, {"solo": 1}, "few")
    with told(trial):
        trial.go(20, 20)


# In CI the test above has the first 20 of these moves.
@pytest.mark.night
def test_500_moves_of_hers_start_nothing_of_another_and_stop_no_reader(lab: Any) -> None:
    trial = Trial(lab, {"solo": 1, "other": 1, "pair": 2}, "many")
    with told(trial):
        trial.go(500, 25)
        assert hers(trial.lab.base)
        commands(trial)


# tests/unit/roles/run_queue/queue_agent/talk has in CI what is refused of its words.
@pytest.mark.night
def test_a_hostile_worker_harms_no_run_but_that_of_its_slice(lab: Any) -> None:
    trial = Trial(lab, {"solo": 1}, "worker")
    leader, other = lab.slice("pair", 2, up=False)
    leader.up()
    chance = random.Random(SEED)  # noqa: S311 - repeatable
    with told(trial):
        lies(trial, leader, chance)
        leader.end()
        leader.process = None
        other.up()
        false_orders(trial, leader, other, chance)


def lies(trial: Trial, leader: Any, chance: random.Random) -> None:
    """Worker 1 says what it likes: at worst the run of its slice fails, and another takes none."""
    own = leader.settings
    kept = keys.Keys(harness.KEY, trial.lab.base / "worker-1")
    client = wire.Client(" queue of pair", 1, own["port"], own["hosts"], kept, QUEUE)
    seen, lab = set(), trial.lab
    lab.submit("for-pair", "exec sleep 1000", slices=("pair",))
    for number in range(200):
        told_run = chance.choice(("", "for-pair", "good-1", "../x", "digits"))
        lie = Report(
            worker=chance.choice((1, 1, 1, 0, 2, -1)), run=told_run, claim=chance.choice((0, 1, 9)),
            state=chance.choice(("nothing", "started", "burnt")), busy=chance.choice(("", "x")),
            problem=chance.choice(("", "\x1b[2J" + "x" * 5000)), final=chance.choice((True, False)),
            tried=chance.choice(("", "for-pair")), tried_claim=chance.choice((0, 1, 2)),
        )  # fmt: skip
        order = client.exchange(lie if number % 3 else Report(1))
        seen.add(order and order.run)
        trial.moves.append(f"lie {number}: {lie}"[:160])
        time.sleep(0.02)
    lab.wait("for-pair", "running")
    harness.wait_until(lambda: client.exchange(Report(1)), "an answer")
    mine = lab.state("for-pair")
    failed = Report(1, problem="so", final=True, tried="for-pair", tried_claim=mine.claims)
    harness.wait_until(lambda: client.exchange(failed) and not lab.state("for-pair").is_open, "end")
    assert lab.state("for-pair").reason == "so"
    client.close()
    trial.honest("good-after-lies", slices=("solo",))
    trial.look()
    assert seen <= {None, "", "for-pair"}


def false_orders(trial: Trial, leader: Any, other: Any, chance: random.Random) -> None:
    """Give worker 1 orders with the key of the wire: it starts what is signed, alone."""
    own, lab, eve = leader.settings, trial.lab, trial.eve
    own_keys = keys.Keys(harness.KEY, lab.base / "worker-0")
    known = [run.definition for run, _signed in eve.copies.values()]
    eve.number = 1000
    for _ in range(5):
        eve.forge()
    forged = [lab.state(name).definition for name in eve.names[-5:]]
    orders = [
        Order(
            chance.choice(PHASES), chance.choice(("lr-1", "../lr-1", "digits", *eve.names[-5:])),
            chance.choice((*known, *forged, "f" * 64)), chance.choice((0, 1, 7, 10**9)),
        )
        for _ in range(40)
    ]  # fmt: skip
    heard: list[Report] = []

    def answer(report: Report) -> Order:
        heard.append(report)
        return orders[min(len(heard) // 3, len(orders) - 1)]

    server = wire.Server(
        *(" queue of pair", own["port"], own["hosts"], own_keys, QUEUE, answer),
        lambda address, why: trial.moves.append(f"{address}: {why}"),
    )
    harness.wait_until(lambda: len(heard) > 3 * len(orders), "all orders")
    trial.moves += map(str, orders)
    server.close()
    assert any(one.problem for one in heard)
    trial.lab.workers[:] = [one for one in lab.workers if one is not leader]
    trial.look()


def commands(trial: Trial) -> None:
    """Run the commands of people as processes."""
    lab = trial.lab
    users = [
        {"name": one.name, "uid": uid, "keys": [one.public_key]}
        for uid, one in enumerate((lab.alice, lab.eve), 2001)
    ]
    declare(lab.base, lab.cloud, trial.entries(), users, {"bucket": lab.address})
    stale = [name for name in trial.eve.names if not name.startswith("-")][-3:]
    for words in (
        *(["runs", "--queue"], ["runs", "--queue", "--json"], ["stop", "--timeout", "5", *stale]),
        *(["retry", "--timeout", "5", "good-0", *stale], ["logs", "good-0"], ["logs", stale[0]]),
        *(["fetch", "good-0"], ["stop", "ghost"]),
    ):
        with bounded(" ".join(words)):
            done = tpu_fleet(lab.base, lab.cloud, lab.base, *words)
        said = done.stdout + done.stderr
        assert plain(said), f"{words}: {said!r}"
        assert "Traceback" not in said, said
        assert done.returncode in (0, 1, 2), said
