"""A local cloud with machines, driven as a person would: by the command, the API and ssh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from ports import free_port

from tpu_local_cloud.machines.layout import Layout

ZONE = "us-central2-b"


class ContainerCloud:
    """One local cloud in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = folder / "cloud"
        self.port = free_port()
        self.key = folder / "key"
        if not self.key.exists():
            folder.mkdir(parents=True, exist_ok=True)
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)]
            subprocess.run(make, check=True)

    # -- the command --------------------------------------------------------------------------

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `tpu-local-cloud …` on this cloud."""
        program = Path(sys.executable).with_name("tpu-local-cloud")
        done = subprocess.run(
            [str(program), *arguments],
            env={**os.environ, "TPU_FLEET_CLOUD_DIR": str(self.state_dir)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"cloud {arguments}: {done.returncode}: {done.stdout}{done.stderr}"
            )
        return done

    def up(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Bring the cloud up."""
        return self.command("up", f"--port={self.port}", "--clock=immediate", *options)

    def down(self) -> None:
        """Remove the cloud, but not the image that the next test wants."""
        self.command("down", "--keep-image")

    @property
    def server_pid(self) -> int:
        """Return the API server's process id."""
        return int((self.state_dir / "server.pid").read_text())

    @property
    def host(self) -> dict[str, Any]:
        """Return the choices that the cloud made on this computer."""
        found: dict[str, Any] = json.loads(Layout(self.state_dir).host_file.read_text())
        return found

    def keeper_says(self) -> str:
        """Return the end of the keeper's log: what became of machines that ended."""
        log = Layout(self.state_dir).home / "keeper.log"
        return "\n".join(log.read_text().splitlines()[-12:])

    # -- the API ------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """Return the API's address."""
        return f"http://127.0.0.1:{self.port}/"

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the API and return its answer; operations are waited for."""
        answer = requests.request(method, self.endpoint + path, json=body, timeout=120)
        assert answer.ok, answer.text
        result: dict[str, Any] = answer.json()
        while "/operations/" in result.get("name", "") and not result.get("done"):
            time.sleep(0.2)
            result = requests.get(f"{self.endpoint}v2/{result['name']}", timeout=60).json()
        assert "error" not in result, result
        return result

    @staticmethod
    def path(node: str) -> str:
        """Return the path of a node."""
        return f"v2/projects/local-project/locations/{ZONE}/nodes/{node}"

    def create(
        self, node: str, accelerator_type: str = "v4-8", **metadata: str
    ) -> list[tuple[str, str]]:
        """Create a node whose workers admit our key; return their addresses."""
        public = self.key.with_suffix(".pub").read_text().strip()
        body = {
            "acceleratorType": accelerator_type,
            "runtimeVersion": "tpu-ubuntu2204-base",
            "networkConfig": {"enableExternalIps": True},
            "metadata": {"ssh-keys": f"ubuntu:{public}", **metadata},
        }
        parent = self.path(node).rpartition("/")[0]
        self.call("POST", f"{parent}?nodeId={node}", body)
        return self.addresses(node)

    def addresses(self, node: str) -> list[tuple[str, str]]:
        """Return internal and external address of each worker."""
        endpoints = self.call("GET", self.path(node))["networkEndpoints"]
        return [(e["ipAddress"], e["accessConfig"]["externalIp"]) for e in endpoints]

    def delete(self, node: str) -> None:
        """Delete a node."""
        self.call("DELETE", self.path(node))

    def control(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the control interface."""
        return self.call("POST" if body is not None else "GET", f"_cloud/{path}", body)

    # -- the machines -------------------------------------------------------------------------

    def ssh(self, address: str, command: str, user: str = "ubuntu") -> str:
        """Run a shell command on a machine and return what it printed."""
        done = self.try_ssh(address, command, user)
        if done.returncode != 0:
            raise AssertionError(f"{address}: {command}: {done.returncode}: {done.stderr}")
        return done.stdout.strip()

    def try_ssh(
        self, address: str, command: str, user: str = "ubuntu", connect: int = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a machine, to which ssh has some seconds to come."""
        return subprocess.run(
            [*self.ssh_words(address, user, connect), command],
            capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def ssh_words(self, address: str, user: str = "ubuntu", connect: int = 30) -> list[str]:
        """Return the words of ssh that lead to a machine."""
        options = {
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ConnectTimeout": str(connect),
            "BatchMode": "yes",
        }
        flags = [f"-o{name}={value}" for name, value in options.items()]
        return ["ssh", "-i", str(self.key), *flags, f"{user}@{address}"]

    def boot_id(self, address: str) -> str | None:
        """Return the boot id of the machine at this address, or None while it is down."""
        done = self.try_ssh(address, "cat /proc/sys/kernel/random/boot_id", connect=3)
        return done.stdout.strip() if done.returncode == 0 else None


def eventually(condition: Callable[[], Any], limit: float = 60) -> Any:
    """Return the first true result of a condition."""
    deadline = time.monotonic() + limit
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {limit:g} s")
        time.sleep(0.3)


@pytest.fixture(scope="session")
def container_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCloud]:
    """A cloud that is up for the whole session; tests name their nodes apart."""
    cloud = ContainerCloud(tmp_path_factory.mktemp("container"))
    cloud.up()
    try:
        yield cloud
    finally:
        cloud.down()


@pytest.fixture
def own_cloud(tmp_path: Path) -> Iterator[ContainerCloud]:
    """A cloud that is not up yet, for tests that end it themselves."""
    cloud = ContainerCloud(tmp_path)
    try:
        yield cloud
    finally:
        cloud.down()
