# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of ssh connections to workers: limits, keepalives, key exchange. No I/O.

It is said here for all who connect: Ansible's ssh, ssh with the fleet's configuration, tpu-fleet.
What shares a connection, and for how long, is in ansible.cfg.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .._core.cache_folder import cache_folder

KEX_DEFAULT, KEX_CHEAP = "default", "cheap"
KEY_EXCHANGES = (KEX_DEFAULT, KEX_CHEAP)
KEX_ENV = "TPU_FLEET_SSH_KEX"

# Every sshd since 2014 has the first, and both ssh and asyncssh know all of them by these names.
CHEAP_KEX = ("curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256")
KEX_OPTION = "KexAlgorithms"

# One attempt, for a limited time: callers that want more attempts repeat and report them.
CONNECT_SECONDS = 10
# A preempted machine does not close connections. Without keepalives ssh would wait for hours.
ALIVE_SECONDS, ALIVE_COUNT = 15, 3


def connection_options(key_exchange: str = KEX_DEFAULT) -> dict[str, str]:
    """Return the lines of an ssh configuration."""
    options = {
        "ConnectTimeout": str(CONNECT_SECONDS),
        "ConnectionAttempts": "1",
        "ServerAliveInterval": str(ALIVE_SECONDS),
        "ServerAliveCountMax": str(ALIVE_COUNT),
    }
    if key_exchange == KEX_CHEAP:
        options[KEX_OPTION] = ",".join(CHEAP_KEX)
    return options


def asks_for_cheap(algorithms: str) -> bool:
    """Return whether a line KexAlgorithms allows only cheap algorithms."""
    return bool(algorithms) and set(algorithms.split(",")) <= set(CHEAP_KEX)


def control_directory(environment: Mapping[str, str]) -> Path:
    """Return the folder of the sockets of shared connections.

    The whole path of a socket must fit into 108 bytes, so this is not in the state folder, which
    may be anywhere.
    """
    return cache_folder(environment) / "ssh"
