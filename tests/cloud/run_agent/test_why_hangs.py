"""Runs that hang, as processes on this computer: what their workers show is judged as it is.

In CI `test_why.py` has others. With machines, and through the command, the stage `why` makes the
same and more.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import hangs
import pytest

from tpu_fleet.why.case import Case, Verdict, Worker
from tpu_fleet.why.judge import judge
from tpu_fleet.workers.ask import run_evidence

harness = sys.modules["run_agent_harness"]
pytestmark = pytest.mark.night
Make = Callable[..., list[Any]]
HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
QUIET = 16.0
"""Seconds after which a run with fast steps counts as quiet, and one more."""


def look(workers: list[Any]) -> Case:
    """Ask all workers at once, as the command does."""
    asked = []
    for one in workers:
        words = [sys.executable, "-I", str(harness.SCRIPT), "why", one.run]
        words.append(str(one.definition.parent))
        asked.append(subprocess.Popen(words, stdout=subprocess.PIPE))
    return Case("demo", "pair", tuple(map(_shown, workers, asked)))


def _shown(worker: Any, asked: subprocess.Popen[bytes]) -> Worker:
    answer = asked.communicate()[0].split(b"\n", 1)[1]
    data = b""
    while answer:
        head, _newline, answer = answer.partition(b"\n")
        count = int(harness.json.loads(head)["bytes"])
        data, answer = data + answer[:count], answer[count:]
    shown = run_evidence.parsed(f"w{worker.index}", data)
    return Worker(worker.index, f"w{worker.index}", shown.evidence)


@pytest.fixture
def started(gang: Make) -> Iterator[Callable[..., list[Any]]]:
    """Return what starts three workers of a program that hangs, as one of them does."""
    with ExitStack() as stack:

        def start(kind: str, where: int, workers: int = 3, **env: str) -> list[Any]:
            made = gang(
                f"exec {sys.executable} train.py",
                hosts=HOSTS[:workers],
                workers=workers,
                min_free_bytes=1,
            )
            for one in made:
                odd = kind == "other_version" and one.index == where
                hangs.write(one.folder, "0.11.0" if odd else "0.12.0")
                # On all workers the same: otherwise it is not the same run.
                one.define(one.given, {"HANG": kind, "WHERE": str(where), "SAVE_IN": "log", **env})
            if kind == "full_disk":
                stack.enter_context(small_disk(made[where].folder / "log"))
            if kind == "blocked_port":
                stack.enter_context(deaf(made[0].given["coordinator_port"]))
            for one in made:
                if (kind, one.index) != ("never_starts", where):
                    one.up()
            return made

        yield start


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Mount a disk of 64 MiB."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def deaf(port: int) -> Iterator[None]:
    """Hold worker 0's port so that no packet to it is answered, as a firewall does."""
    with socket.socket() as holder, ExitStack() as waiting:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((HOSTS[0], port))
        holder.listen(0)
        for _each in range(4):  # a full queue drops what comes
            stream = waiting.enter_context(socket.socket())
            stream.setblocking(False)
            stream.connect_ex((HOSTS[0], port))
        yield


def verdict(workers: list[Any], looks: int = 1) -> Verdict:
    """Look at a run so often, and judge it."""
    seen = []
    for _each in range(looks):
        seen.append(look(workers))
        time.sleep(1 if looks > 1 else 0)
    return judge(seen)


def until_slow(workers: list[Any]) -> Verdict:
    """Judge four looks, and once more if too many of them fell between two steps.

    The others compute for a fifteenth of each step. On a busy computer a look takes seconds, and
    every fifth shows some that compute, and some that wait.
    """
    for _each in range(5):
        found = verdict(workers, 4)
        assert found.answer.key in ("slow", "healthy"), found.findings
        if found.answer.key == "slow":
            break
    return found


def steps(workers: list[Any]) -> int:
    """Return how far the workers are."""
    found = [one.status().get("step") or 0 for one in workers]
    return int(min(found))


@pytest.mark.parametrize("kind", [kind for kind in hangs.WANTED if kind != "healthy"])
def test_the_worker_and_the_cause_are_named(started: Callable[..., list[Any]], kind: str) -> None:
    cause, where = hangs.WANTED[kind]
    workers = started(kind, where[0])
    if kind not in ("never_starts", "blocked_port"):
        harness.wait_until(lambda: steps(workers) >= 3, "steps", 40)
    if kind == "stopped":
        os.kill(workers[where[0]].status()["pid"], signal.SIGSTOP)
    time.sleep(5 if kind == "never_starts" else QUIET)
    found = until_slow(workers) if kind == "slow" else verdict(workers)
    said = [(one.key, one.workers, one.sentence) for one in found.findings]
    assert (found.answer.key, found.answer.workers) == (cause, where), said


def test_a_healthy_run_is_called_healthy(started: Callable[..., list[Any]]) -> None:
    workers = started("healthy", 0, workers=2)
    harness.wait_until(lambda: steps(workers) >= 10, "steps", 20)
    found = verdict(workers, 2)
    assert found.is_fine, found.findings
    assert found.answer.key == "healthy"
    assert not [one for one in workers if "Thread 0x" in one.log()]
