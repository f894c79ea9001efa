# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why a host cannot be worked with, and name the remedy. No I/O."""

from __future__ import annotations

import errno
import socket
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(str, Enum):
    """How the work with a host ended."""

    DONE = "done"
    """The command ran to its end; its exit status says how."""
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    SILENT = "silent"
    """Something took the connection, and said nothing or did not let us in, in time."""
    CLOSED = "closed"
    """It closed the connection before the command began."""
    HOST_KEY = "host_key"
    AUTH = "auth"
    PROXY = "proxy"
    LOCAL = "local"
    """The reason is on this computer."""
    TIMEOUT = "timeout"
    """The time for this host was over while the command ran."""
    CUT = "cut"
    """The connection was lost while the command ran: it may have done its work or not."""
    UNAVAILABLE = "unavailable"
    """The host was not asked: the fleet says that it cannot be used."""


BEGUN = frozenset({Kind.DONE, Kind.TIMEOUT, Kind.CUT})
"""The command may have been started: only its caller can decide whether to try again."""
ELSEWHERE = frozenset(
    {Kind.UNREACHABLE, Kind.REFUSED, Kind.SILENT, Kind.CLOSED, Kind.HOST_KEY, Kind.PROXY}
)
"""It may be that the host has another address by now."""

DENIED_FOR = 20
"""Seconds for which a login may be denied: a machine just made has no accounts at first."""

_LOOK = "See whether it runs: tpu-fleet doctor."


@dataclass(frozen=True)
class Failure:
    """Why there is no result of a host."""

    kind: Kind
    says: str
    remedy: str


@dataclass(frozen=True)
class ConnectionProgress:
    """How far the connection had come."""

    address: str = ""
    user: str = ""
    key_name: str = ""
    key_known: bool = True
    connected: bool = False
    greeted: bool = False
    """An SSH server said its name."""
    begun: bool = False
    waited: float = 0.0
    keys: str = ""
    proxy_said: str = ""
    proxy: bool = False


class LocalTrouble(Exception):
    """Something on this computer keeps us from trying at all."""

    def __init__(self, says: str, remedy: str) -> None:
        super().__init__(says)
        self.says = says
        self.remedy = remedy


def failure_of(error: BaseException, seen: ConnectionProgress) -> Failure:
    """Say what an exception means, given how far it went."""
    if isinstance(error, LocalTrouble):
        return Failure(Kind.LOCAL, error.says, error.remedy)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return Failure(
            Kind.LOCAL,
            "this computer has no room for another open file",
            "Raise the limit (ulimit -n), or use fewer hosts at once.",
        )
    if seen.begun:
        return _while_it_ran(error, seen)
    # An error of asyncssh comes from where it was imported. This module is a part of every playbook
    # that waits for logins, and the import takes as long as half of Ansible's start.
    asyncssh = sys.modules.get("asyncssh")
    if asyncssh is not None:
        found = _of_ssh(asyncssh, error, seen)
        if found:
            return found
    if isinstance(error, TimeoutError):
        return _too_late(seen)
    return _of_network(error, seen)


def _while_it_ran(error: BaseException, seen: ConnectionProgress) -> Failure:
    if isinstance(error, TimeoutError):
        return Failure(
            Kind.TIMEOUT,
            f"the command was not done after {seen.waited:.0f} s and was ended",
            "Give it more time, or see what it waits for.",
        )
    return Failure(
        Kind.CUT,
        f"the connection was lost while the command ran: {_text(error)}",
        "Look what it did before you run it again.",
    )


def _of_ssh(asyncssh: Any, error: BaseException, seen: ConnectionProgress) -> Failure | None:
    text = _text(error)
    no_host_key = isinstance(error, asyncssh.KeyExchangeFailed) and "host key" in text.lower()
    if isinstance(error, asyncssh.HostKeyNotVerifiable) or no_host_key:
        if not seen.key_known:
            return Failure(
                Kind.HOST_KEY,
                f"no host key is known for {seen.key_name}",
                "Refresh the addresses: tpu-fleet exec --refresh",
            )
        return Failure(
            Kind.HOST_KEY,
            f"{seen.address} does not have the host key of {seen.key_name}: it is another machine,"
            " or a machine in between answers",
            "Refresh the addresses, which change: tpu-fleet exec --refresh. If it persists, do not"
            " connect.",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        tried = f" with {seen.keys}" if seen.keys else ""
        return Failure(
            Kind.AUTH,
            f"{seen.user} may not log in{tried}",
            "Name another login, or have the slices admit the key: tpu-fleet apply --only slices",
        )
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return Failure(Kind.CLOSED, text, "Choose another key exchange: --kex default.")
    if isinstance(error, asyncssh.ChannelOpenError):
        return Failure(Kind.CLOSED, f"the host starts no command: {text}", _LOOK)
    if isinstance(error, asyncssh.ConnectionLost):
        return _lost(seen, text)
    if isinstance(error, asyncssh.Error):
        return Failure(Kind.CLOSED, f"the SSH server gave up: {text}", _LOOK)
    return None


def _lost(seen: ConnectionProgress, text: str) -> Failure:
    if seen.proxy:
        said = f": {seen.proxy_said}" if seen.proxy_said else ""
        return Failure(Kind.PROXY, f"the proxy command ended{said}", "Run it by hand to see why.")
    return Failure(
        Kind.CLOSED,
        f"{seen.address} closed the connection before the login: {text}",
        "It starts, or lets in fewer at once: try again, with --connects 10 if many do this.",
    )


def _too_late(seen: ConnectionProgress) -> Failure:
    after = f"after {seen.waited:.0f} s"
    if seen.proxy and not seen.greeted:
        said = f": {seen.proxy_said}" if seen.proxy_said else ""
        return Failure(Kind.PROXY, f"no answer through the proxy {after}{said}", _LOOK)
    if seen.greeted:
        return Failure(Kind.SILENT, f"{seen.address} did not finish the login {after}", _LOOK)
    if seen.connected:
        return Failure(
            Kind.SILENT,
            f"{seen.address} takes connections, but no SSH server answers {after}",
            _LOOK,
        )
    return Failure(
        Kind.UNREACHABLE,
        f"{seen.address} does not answer {after}",
        "Is it there, and does the firewall let SSH in from here? tpu-fleet doctor",
    )


def _of_network(error: BaseException, seen: ConnectionProgress) -> Failure:
    if isinstance(error, ConnectionRefusedError):
        return Failure(
            Kind.REFUSED,
            f"{seen.address} refuses connections: no SSH server listens there",
            "It may be starting: try again in a minute.",
        )
    if isinstance(error, socket.gaierror):
        return Failure(
            Kind.UNREACHABLE,
            f"the name {seen.address} is not known",
            "Refresh the addresses: tpu-fleet exec --refresh.",
        )
    if isinstance(error, ConnectionError):
        return _lost(seen, _text(error))
    if isinstance(error, OSError):
        return Failure(Kind.UNREACHABLE, f"{seen.address}: {_text(error)}", _LOOK)
    return Failure(
        Kind.LOCAL,
        f"{type(error).__name__}: {_text(error)}",
        "This is a bug of tpu.fleet: report it.",
    )


def _text(error: BaseException) -> str:
    reason: Any = getattr(error, "reason", "") or getattr(error, "strerror", "")
    return str(reason or error).strip() or type(error).__name__
