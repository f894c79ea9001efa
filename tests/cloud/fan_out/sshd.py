"""Real SSH servers on addresses of the loopback net, and servers that are none."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._inventory.host_keys import ssh_arguments
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target, target_of
from ports import free_port

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "sshd is missing"
MOST_ADDRESSES = 16
"""An sshd takes no more."""


def make_key(path: Path, passphrase: str = "") -> str:
    """Make a key; return its public half."""
    command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", str(path))
    subprocess.run(command, check=True)
    return Path(f"{path}.pub").read_text().strip()


class Sshd:
    """One sshd; each of its addresses is a host."""

    def __init__(self, folder: Path, addresses: Sequence[str], authorized: str, more: str = ""):
        self.folder, self.addresses = folder, list(addresses)
        folder.mkdir(parents=True)
        self.host_key = make_key(folder / "host_key")
        self.port = free_port(*self.addresses)
        (folder / "authorized_keys").write_text(f"{authorized}\n")
        listen = "\n".join(f"ListenAddress {address}:{self.port}" for address in self.addresses)
        (folder / "sshd_config").write_text(
            f"""{more}
{listen}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 1000
LogLevel VERBOSE
# Or bash reads the .bashrc of whoever runs the tests, which may be slow.
SetEnv SHLVL=2
"""
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                (SSHD, "-D", "-e", "-f", folder / "sshd_config"), stdout=log, stderr=log
            )
        self._wait()

    def _wait(self) -> None:
        for address in self.addresses:
            deadline = time.monotonic() + 30
            while True:
                try:
                    with socket.create_connection((address, self.port), timeout=5) as one:
                        assert one.recv(4) == b"SSH-"
                        break
                except OSError:
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(f"sshd: {self.log.read_text()}") from None
                    time.sleep(0.05)

    def count(self, pattern: str) -> int:
        """Count what it says in its log."""
        return len(re.findall(pattern, self.log.read_text(errors="replace")))

    def stop(self) -> None:
        """End it, and the connections that it has."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in children.read_text().split() if self.process.poll() is None else []:
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.terminate()
        self.process.wait(10)


class Sockets:
    """A server that takes connections and does with them what a test says; nothing by default."""

    def __init__(self, address: str, say: bytes = b"", cut: bool = False):
        self.address = address
        self._say, self._cut = say, cut
        self._listener = socket.create_server((address, 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        self.taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                one, _address = self._listener.accept()
            except OSError:
                return
            self.taken.append(one)
            if self._say:
                one.sendall(self._say)
            if self._cut:
                one.close()

    def stop(self) -> None:
        """Take no more, and let go of all."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self.taken:
            one.close()


class Relay:
    """A wire between a client and a server that a test can cut, or hold still."""

    def __init__(self, address: str, to: tuple[str, int]):
        self.address, self._to = address, to
        self._listener = socket.create_server((address, 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                one, _address = self._listener.accept()
            except OSError:
                return
            other = socket.create_connection(self._to)
            self._ends += [one, other]
            for pair in ((one, other), (other, one)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # Who is killed while data are on their way to it ends with a reset, which is passed on.
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cut all that is open."""
        for end in self._ends:
            with suppress(OSError):  # an end may be gone already
                end.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Take no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            end.close()


@dataclass
class Farm:
    """Hosts w0 to w63."""

    folder: Path
    key: Path
    servers: list[Sshd]
    known_hosts: Path = field(init=False)

    def __post_init__(self) -> None:
        self.known_hosts = self.folder / "known hosts"
        lines = [f"tpu.{name}.0 {server.host_key}\n" for name, server, _address in self.hosts()]
        self.known_hosts.write_text("".join(lines))

    def hosts(self) -> list[tuple[str, Sshd, str]]:
        """Return name, server and address of each."""
        pairs = [(server, address) for server in self.servers for address in server.addresses]
        return [(f"w{number}", server, address) for number, (server, address) in enumerate(pairs)]

    def options(self, host: str, server: Sshd) -> dict[str, object]:
        """Return the options of ssh for a host, as the inventory has them."""
        return {
            "Port": server.port,
            "HostKeyAlias": f"tpu.{host}.0",
            "UserKnownHostsFile": f'"{self.known_hosts}"',
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
        }

    def targets(self, count: int = 64) -> list[Target]:
        """Return the first of them."""
        return [
            target_of(
                name,
                address,
                "",
                getpass.getuser(),
                str(self.key),
                [ssh_arguments(self.options(name, server))],
            )
            for name, server, address in self.hosts()[:count]
        ]

    def sessions(self) -> int:
        """Count the commands that were started so far."""
        return sum(server.count("Starting session") for server in self.servers)

    def logins(self) -> int:
        """Count the logins so far."""
        return sum(server.count("Accepted publickey") for server in self.servers)
