"""The arguments that the inventory gives to ssh, tried with a real ssh and sshd on loopback."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._inventory import host_keys
from ports import free_port

UID, WORKER = "6502082742571311568", 1
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@dataclass(frozen=True)
class Machine:
    port: int
    host_key: str
    login_key: Path


def keygen(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text().split()[1]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if SSHD is None:
        pytest.fail("sshd is missing: install openssh-server (`make test` does)")
    folder = tmp_path_factory.mktemp("sshd")
    host_key, login_key = folder / "host", folder / "login"
    public = keygen(host_key)
    keygen(login_key)
    port = free_port()
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    options = {
        "AuthorizedKeysFile": str(login_key.with_suffix(".pub")),
        "HostKey": str(host_key),
        "ListenAddress": "127.0.0.1",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "yes",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    argv = [SSHD, "-D", "-e", "-f", "/dev/null", "-p", str(port), *words]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield Machine(port, public, login_key)
        server.terminate()


def known_hosts(folder: Path, key: str) -> Path:
    path = host_keys.known_hosts_path(folder / "a folder", UID)
    host_keys.write_known_hosts(path, host_keys.known_hosts_lines(UID, [{}, {"ssh-ed25519": key}]))
    return path


def ssh(
    machine: Machine, arguments: str, host: str = "127.0.0.1"
) -> subprocess.CompletedProcess[str]:
    argv = ["ssh", "-F", "none", "-p", str(machine.port), "-i", str(machine.login_key)]
    argv += ["-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
    argv += [*shlex.split(arguments), f"{getpass.getuser()}@{host}", "echo in"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)


def test_a_published_key_lets_in_whatever_the_address(machine: Machine, tmp_path: Path) -> None:
    file = known_hosts(tmp_path, machine.host_key)
    arguments = host_keys.ssh_arguments(host_keys.ssh_options(UID, WORKER, file, "verify"))
    for address in ("127.0.0.1", "localhost"):
        done = ssh(machine, arguments, address)
        assert (done.returncode, done.stdout) == (0, "in\n"), done.stderr


def test_a_forged_key_is_refused(machine: Machine, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other")
    for policy in ("verify", "accept_new"):
        file = known_hosts(tmp_path, other)
        done = ssh(
            machine, host_keys.ssh_arguments(host_keys.ssh_options(UID, WORKER, file, policy))
        )
        assert done.returncode == 255
        assert "Host key verification failed" in done.stderr
        assert "in\n" not in done.stdout


def test_another_worker_of_the_node_is_refused(machine: Machine, tmp_path: Path) -> None:
    file = known_hosts(tmp_path, machine.host_key)
    done = ssh(
        machine, host_keys.ssh_arguments(host_keys.ssh_options(UID, WORKER + 1, file, "verify"))
    )
    assert "Host key verification failed" in done.stderr


def test_without_published_keys_only_accept_new_lets_in(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "none yet"
    done = ssh(machine, host_keys.ssh_arguments(host_keys.ssh_options(UID, WORKER, file, "verify")))
    assert "Host key verification failed" in done.stderr
    arguments = host_keys.ssh_arguments(host_keys.ssh_options(UID, WORKER, file, "accept_new"))
    assert ssh(machine, arguments).stdout == "in\n"
    assert file.read_text().split()[:2] == [host_keys.alias(UID, WORKER), "ssh-ed25519"]
    assert ssh(machine, arguments).stdout == "in\n"


def test_the_tunnel_carries_a_connection(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for gcloud notes what it is asked for, and carries the bytes to the machine."""
    asked = tmp_path / "asked"
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(
        f"""#!/bin/bash
printf '%s\\n' "$@" > {asked}
exec 3<>/dev/tcp/127.0.0.1/{machine.port}
cat <&3 &
cat >&3
"""
    )
    gcloud.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = known_hosts(tmp_path, machine.host_key)
    proxy = host_keys.iap_proxy_command("t1v-n-0a1b2c3d-w-1", "my-project", "us-central2-b")
    done = ssh(
        machine,
        host_keys.ssh_arguments(host_keys.ssh_options(UID, WORKER, file, "verify", proxy)),
        "t1v-n-0a1b2c3d-w-1",
    )
    assert (done.returncode, done.stdout) == (0, "in\n"), done.stderr
    assert asked.read_text().split()[:6] == [
        *("alpha", "compute", "start-iap-tunnel"),
        *("t1v-n-0a1b2c3d-w-1", str(machine.port), "--listen-on-stdin"),
    ]
    assert {"--project=my-project", "--zone=us-central2-b"} <= set(asked.read_text().split())
