"""The guest agent of all small machines of a cloud: one process outside them.

An agent in each would take more memory than everything else in the machine. For each node it
follows the metadata as one of its machines sees it; in each machine it creates the accounts and
publishes the host keys. A child does that in the machine's network and root folder: its requests
come from the machine's address, and no link in the machine leads it out.
"""

from __future__ import annotations

import ctypes
import encodings.idna  # noqa: F401  (a child would look for it in the machine)
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from . import small_accounts
from .census import Census, allow_many_files
from .guest.accounts import now, wanted_keys
from .guest.agent import HOST_KEYS, WAIT, host_keys
from .guest.metadata import Metadata, Unavailable
from .helpers import enter_network, sole, start_helper
from .layout import Layout, read_json
from .small import folder, lives_on, settled_file

NAME = "agent"
# Machines that are served at the same time.
AT_ONCE = 4
LOOK_EVERY = 0.1
AGAIN_AFTER = 1.0
_NOTHING_NEW = b"-"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def start(layout: Layout) -> None:
    """Start the agent, unless it runs."""
    start_helper(layout, NAME, __name__)


@dataclass
class Job:
    """A running child; its output is its result, empty if it failed."""

    pid: int
    machine_id: str
    machine_pid: int
    done: Callable[[bytes], None]
    stopped: bool = False
    """Whether it was ended because its machine ended."""


@dataclass
class Node:
    """The record of a node with small machines."""

    machines: dict[str, int] = field(default_factory=dict)
    etag: str = ""
    # Users and their keys; None while unknown, or if the metadata are not read.
    keys: dict[str, list[str]] | None = None
    known: bool = False
    watched: bool = False
    again: float = 0.0


class Agent:
    """Acts for the small machines of one cloud."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._census = Census(layout)
        self._poll = select.poll()
        self._jobs: dict[int, Job] = {}
        self._records: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, Node] = {}
        self._settled: dict[str, int] = {}
        self._busy: set[str] = set()
        self._pause: dict[str, float] = {}

    def run(self) -> None:
        """Run until the cloud is removed."""
        while self._layout.host_file.exists():
            pids = self._census.look()
            if pids is not None:
                self._count(pids)
            self._begin()
            for handle, _ in self._poll.poll(LOOK_EVERY * 1000):
                self._end(handle)

    def _count(self, pids: dict[str, int]) -> None:
        """Update the machines of each node; end work for others."""
        for node in self._nodes.values():
            node.machines = {}
        for machine_id, pid in pids.items():
            if machine_id not in self._records:
                record = read_json(self._layout.record(machine_id))
                if record is None:
                    continue  # not written yet: that will be seen, too
                self._records[machine_id] = record
            record = self._records[machine_id]
            if record.get("small"):
                self._nodes.setdefault(record["node_uid"], Node()).machines[machine_id] = pid
        for gone in set(self._records) - set(pids):
            # It may be booting; its record is read again then.
            del self._records[gone]
            self._settled.pop(gone, None)
        for uid in [uid for uid, node in self._nodes.items() if not node.machines]:
            del self._nodes[uid]
        for job in self._jobs.values():
            if pids.get(job.machine_id) != job.machine_pid:
                # It would keep the network of a removed machine alive.
                job.stopped = True
                os.kill(job.pid, signal.SIGKILL)

    def _begin(self) -> None:
        moment = time.monotonic()
        for uid, node in self._nodes.items():
            if not node.watched and moment >= node.again:
                machine_id, pid = next(iter(node.machines.items()))
                node.watched = True
                self._fork(
                    machine_id,
                    pid,
                    partial(_watch, node.etag),
                    partial(self._watched, uid),
                )
            if node.known:
                self._settle_some(node, moment)

    def _settle_some(self, node: Node, moment: float) -> None:
        for machine_id, pid in node.machines.items():
            if len(self._busy) >= AT_ONCE:
                return
            if (
                self._settled.get(machine_id) != pid
                and machine_id not in self._busy
                and moment >= self._pause.get(machine_id, 0.0)
            ):
                self._busy.add(machine_id)
                self._fork(
                    machine_id,
                    pid,
                    partial(_settle, node.keys),
                    partial(self._was_settled, node, machine_id, pid),
                )

    def _watched(self, uid: str, text: bytes) -> None:
        node = self._nodes.get(uid)
        if node is None:
            return
        node.watched = False
        if text == _NOTHING_NEW:
            return
        if not text:
            # A restarted cloud may have lost what was published.
            if node.etag:
                self._forget(node)
            node.etag, node.again = "", time.monotonic() + AGAIN_AFTER
            return
        answer = json.loads(text)
        if not node.known or answer["keys"] != node.keys:
            node.keys, node.known = answer["keys"], True
            self._forget(node)
        node.etag = answer["etag"]

    def _forget(self, node: Node) -> None:
        for machine_id in node.machines:
            self._settled.pop(machine_id, None)

    def _was_settled(self, node: Node, machine_id: str, pid: int, text: bytes) -> None:
        self._busy.discard(machine_id)
        if text == _NOTHING_NEW:
            return
        if not text:
            self._pause[machine_id] = time.monotonic() + AGAIN_AFTER
        elif json.loads(text) == node.keys and node.machines.get(machine_id) == pid:
            self._pause.pop(machine_id, None)
            self._settled[machine_id] = pid
            settled_file(self._layout, machine_id).write_text(f"{pid}\n")

    def _fork(
        self, machine_id: str, pid: int, work: Callable[[], str], done: Callable[[bytes], None]
    ) -> None:
        """Run a function in a machine, in a child process."""
        reader, writer = os.pipe()
        own = os.getpid()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(reader)
                _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == own:
                    _enter(self._layout, machine_id, pid)
                    os.write(writer, work().encode())
                    code = 0
            except (OSError, Unavailable, ValueError, KeyError) as error:
                print(f"{machine_id}: {error}", flush=True)
            finally:
                os._exit(code)
        os.close(writer)
        self._jobs[reader] = Job(child, machine_id, pid, done)
        self._poll.register(reader, select.POLLIN)

    def _end(self, handle: int) -> None:
        job = self._jobs.pop(handle)
        self._poll.unregister(handle)
        with open(handle, "rb") as result:
            text = result.read()
        os.waitpid(job.pid, 0)
        job.done(_NOTHING_NEW if job.stopped else text)


def _enter(layout: Layout, machine_id: str, pid: int) -> None:
    """Move this process into a machine's network and root folder, or raise."""
    if not lives_on(pid, folder(layout, machine_id)):
        raise ProcessLookupError(f"process {pid} is not the machine's")
    outside = Path("/").stat()
    enter_network(pid)
    os.chroot(f"/proc/{pid}/root")
    os.chdir("/")
    if os.path.samestat(outside, Path("/").stat()):
        raise ProcessLookupError(f"process {pid} has no root folder of its own")


def _watch(etag: str) -> str:
    """Wait for the metadata to change, and return its accounts."""
    tree, etag = Metadata().tree(etag, WAIT if etag else 0)
    instance = tree.get("instance", {}).get("attributes", {})
    project = tree.get("project", {}).get("attributes", {})
    keys = None
    if instance.get("enable-oslogin", "").lower() != "true":
        keys = wanted_keys(instance, project, now())
    return json.dumps({"etag": etag, "keys": keys})


def _settle(keys: dict[str, list[str]] | None) -> str:
    """Create the accounts of this machine, and publish its host keys."""
    if keys is not None:
        small_accounts.apply(Path("/"), keys)
    metadata = Metadata()
    found = host_keys(HOST_KEYS)
    if not found:
        raise Unavailable("no host keys yet")
    for kind, key in found.items():
        metadata.put_guest_attribute("hostkeys", kind, key)
    name = Path("/etc/hostname").read_text().strip()
    metadata.put_guest_attribute("guestInventory", "hostname", name)
    return json.dumps(keys)


def main() -> None:
    """Act for the small machines of the cloud in the given state directory."""
    layout = Layout(Path(sys.argv[1]))
    lock = sole(layout, NAME)
    if lock is not None:
        allow_many_files()
        # The first address lookup loads libraries that a child would not find.
        socket.getaddrinfo("127.0.0.1", 80)
        with lock:
            Agent(layout).run()


if __name__ == "__main__":
    main()
