# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test whether this worker's packets reach the ports of other workers. Private to tpu.fleet.

A connection is begun and closed at once. No process has to listen for it: a machine without one
refuses it, while a firewall leaves it without an answer. So the test takes no port from a program,
and holds up nothing. The run agent uses this file too, and it is sent to workers.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import random
import re
import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import worker_ports
from .worker_ports import (
    NO_ROUTE,
    OPEN,
    REFUSED,
    TIMEOUT,
    Gang,
    Target,
    Tried,
    needed,
    targets,
)

SECONDS = 4.0
"""Until a connection is given up: the third packet of one, after 3 s, has had its time."""
_ROOTS_PORTS = 1024
# A gang admits only connections from ports of root's, as its own do.
_SOURCES = range(512, 600)
_NETWORK_OF = "/computeMetadata/v1/instance/network-interfaces/0/network"
_NETWORK = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_METADATA_SECONDS = 2.0
_PACKAGES = ("jax", "jaxlib", "libtpu", "torch_xla", "torch_tpu")


class PortTest:
    """Connections that are being tried; `look` returns at once."""

    def __init__(self, wanted: Sequence[Target], seconds: float = SECONDS) -> None:
        """Begin all connections."""
        self._found: list[Tried] = []
        self._waiting = selectors.DefaultSelector()
        self._left: dict[socket.socket, Target] = {}
        for target in wanted:
            if worker_ports.is_address(target.address):  # a name could wait for its server
                self._begin(target)
        self._until = time.monotonic() + seconds

    def look(self, wait: float = 0.0) -> list[Tried] | None:
        """Return what all have shown; None while some may still answer.

        `wait` is how many seconds to wait for the next answer.
        """
        if self._left:
            for key, _events in self._waiting.select(wait):
                self._end(key.fileobj)
        if self._left and time.monotonic() < self._until:
            return None
        for stream in list(self._left):
            self._settle(stream, TIMEOUT)
        self.close()
        return sorted(self._found, key=lambda one: (one.worker, one.port))

    def close(self) -> None:
        """Give up what has not answered."""
        for stream in self._left:
            stream.close()
        self._left.clear()
        self._waiting.close()

    def _begin(self, target: Target) -> None:
        family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
        try:
            stream = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        except OSError:
            return  # no more open files: what was not tried has no result
        stream.setblocking(False)
        self._left[stream] = target
        if target.port < _ROOTS_PORTS:
            _from_a_port_of_root(stream)
        code = stream.connect_ex((target.address, target.port))
        if code == errno.EINPROGRESS:
            self._waiting.register(stream, selectors.EVENT_WRITE)
        else:
            self._settle(stream, result_of(code))

    def _end(self, stream: Any) -> None:
        code = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._waiting.unregister(stream)
        self._settle(stream, result_of(code))

    def _settle(self, stream: socket.socket, result: str) -> None:
        target = self._left.pop(stream)
        stream.close()
        self._found.append(Tried(target.worker, target.port, result, target.what))


def result_of(code: int) -> str:
    """Return what the error number of a connection shows."""
    if code == 0:
        return OPEN
    if code in (errno.ECONNREFUSED, errno.ECONNRESET):
        return REFUSED
    return TIMEOUT if code == errno.ETIMEDOUT else NO_ROUTE


def _from_a_port_of_root(stream: socket.socket) -> None:
    for port in random.sample(_SOURCES, 8):
        with contextlib.suppress(OSError):
            stream.bind(("", port))
            return


def tried(wanted: Sequence[Target], seconds: float = SECONDS) -> list[Tried]:
    """Try all connections at once, and return after at most so many seconds."""
    test = PortTest(wanted, seconds)
    while True:
        found = test.look(0.2)
        if found is not None:
            return found


def versions_of(venv: str, records: Path) -> dict[str, str]:
    """Return the frameworks of a venv, as it was recorded; empty if it is not known."""
    for path in sorted(records.glob("*.json")) if venv else ():
        record = _read(path)
        if record.get("path") == venv:
            packages = record.get("packages") or {}
            names = {str(name).lower().replace("-", "_"): value for name, value in packages.items()}
            return {name: str(names[name]) for name in _PACKAGES if name in names}
    return {}


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def network_of(metadata: str) -> str:
    """Return the name of this machine's network by its metadata server; empty if not known."""
    connection = http.client.HTTPConnection(urlsplit(metadata).netloc, timeout=_METADATA_SECONDS)
    try:
        connection.request("GET", _NETWORK_OF, headers={"Metadata-Flavor": "Google"})
        answer = connection.getresponse()
        name = answer.read(4096).decode("utf-8", "replace").strip().rpartition("/")[2]
    except (http.client.HTTPException, OSError, ValueError):
        return ""
    finally:
        connection.close()
    return name if answer.status == 200 and _NETWORK.fullmatch(name) else ""


def targets_of(
    definition: Mapping[str, Any], env: Mapping[str, str], chips: bool, records: Path
) -> list[Target]:
    """Return what a worker of a run tries, by the run's definition and its variables.

    Returns nothing for what is no definition, or where the run has one worker.
    """
    try:
        gang = Gang.of(definition)
    except (KeyError, TypeError, ValueError):
        return []
    versions = versions_of(str(definition.get("venv") or ""), records)
    return targets(gang, needed(gang, versions, env, chips))


def of_several(
    wanted: Mapping[str, Sequence[Target]], seconds: float = SECONDS
) -> dict[str, list[Tried]]:
    """Test what several runs need at once, each connection one time; return it by run."""
    places = {(one.address, one.port) for part in wanted.values() for one in part}
    numbered = dict(enumerate(sorted(places)))
    found = tried([Target(n, *place) for n, place in numbered.items()], seconds)
    result = {numbered[one.worker]: one.result for one in found}
    return {
        run: [
            Tried(one.worker, one.port, result[one.address, one.port], one.what)
            for one in part
            if (one.address, one.port) in result
        ]
        for run, part in wanted.items()
    }
