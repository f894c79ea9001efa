"""The local cloud that public programs talk to."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before they are imported: where they keep things, and that they tell nobody of their use.
os.environ["HOME"] = tempfile.mkdtemp(prefix="tpu-fleet-clients-")
os.environ["SKYPILOT_DISABLE_USAGE_COLLECTION"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import pytest
import requests
from ports import free_port

HOME = Path.home()
ROOT = Path(__file__).resolve().parents[3]
PORT, GRPC_PORT = free_port(), free_port()
Redirect = Callable[[pytest.MonkeyPatch], None]
"""Leads a program that asks Google to the local cloud: a fixture `redirection` of each folder."""


class LocalCloud:
    """The local cloud that the programs talk to, as `tpu-local-cloud up` brings it up."""

    project = "local-project"
    url = f"http://127.0.0.1:{PORT}/"

    def command(self, *words: str) -> None:
        """Run a command of `tpu-local-cloud`."""
        subprocess.run(
            [ROOT / ".venv/bin/tpu-local-cloud", *words],
            env={**os.environ, "TPU_FLEET_CLOUD_DIR": str(HOME / "cloud")},
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def up(self) -> None:
        """Start it without machines; every operation is over at once."""
        ports = (f"--port={PORT}", f"--grpc-port={GRPC_PORT}")
        self.command("up", "--hosts=none", "--clock=immediate", *ports)

    def control(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        """Ask the control interface."""
        answer = requests.request(method, f"{self.url}_cloud/{path}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def get(self, path: str) -> Any:
        """Return what an API has at a path."""
        answer = requests.get(f"{self.url}{path}", timeout=60)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Send a request to an API."""
        answer = requests.post(f"{self.url}{path}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def fault(self, kind: str, **fields: Any) -> None:
        """Switch a fault on."""
        self.control("faults", {"kind": kind, **fields})

    def mend(self) -> None:
        """Switch all faults off."""
        self.control("faults", method="DELETE")

    def nodes(self) -> list[tuple[str, str]]:
        """Return zone and state of all nodes."""
        state = self.control("state", method="GET")
        return [(node["zone"], node["state"]) for node in state["nodes"]]


@pytest.fixture(scope="session")
def served(redirection: Redirect) -> Iterator[LocalCloud]:
    """Bring a local cloud up for programs that `redirection` leads there, and down again."""
    with pytest.MonkeyPatch.context() as patch:
        redirection(patch)
        cloud = LocalCloud()
        cloud.up()
        yield cloud
        cloud.command("down")
    shutil.rmtree(HOME)


@pytest.fixture
def cloud(served: LocalCloud) -> LocalCloud:
    """Return the local cloud, with nothing in it."""
    served.control("reset", {})
    return served
