"""What public programs are told otherwise than at Google: names of hosts, and credentials."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

# Before they are imported: where they keep things, and that they tell nobody of their use.
os.environ["HOME"] = tempfile.mkdtemp(prefix="tpu-fleet-clients-")
os.environ["SKYPILOT_DISABLE_USAGE_COLLECTION"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import google.auth
import grpc
import httplib2
import pytest
import requests
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport
from google.oauth2.credentials import Credentials

HOME = Path.home()
ROOT = Path(__file__).resolve().parents[3]
PORT = int(os.environ.get("TPU_FLEET_CLIENTS_PORT", "8485"))
GRPC_PORT = PORT + 1


class LocalCloud:
    """The local cloud that the programs talk to, as `tpu-fleet cloud up` brings it up."""

    project = "local-project"
    url = f"http://127.0.0.1:{PORT}/"

    def command(self, *words: str) -> None:
        """Run a command of `tpu-fleet cloud`."""
        subprocess.run(
            [ROOT / ".venv/bin/tpu-fleet", "cloud", *words],
            env={**os.environ, "TPU_FLEET_CLOUD_DIR": str(HOME / "cloud")},
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def control(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        """Ask the control interface."""
        answer = requests.request(method, f"{self.url}_cloud/{path}", json=body, timeout=60)
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


def there(url: str) -> str:
    """Return the address at the local cloud of one of Google's."""
    parts = urlsplit(url)
    if (parts.hostname or "").endswith(".googleapis.com"):
        return urlunsplit(("http", f"127.0.0.1:{PORT}", *parts[2:]))
    return url


def redirect(patch: pytest.MonkeyPatch) -> None:
    """Lead to the local cloud what is for Google, by whichever library it goes."""
    asked, sent = httplib2.Http.request, requests.adapters.HTTPAdapter.send

    def request(self: Any, uri: str, *rest: Any, **more: Any) -> Any:
        return asked(self, there(uri), *rest, **more)

    def send(self: Any, request: Any, **more: Any) -> Any:
        request.url = there(request.url)
        return sent(self, request, **more)

    def create_channel(_cls: Any, host: str, **_: Any) -> grpc.Channel:
        assert host.endswith(".googleapis.com:443")
        return grpc.insecure_channel(f"127.0.0.1:{GRPC_PORT}")

    def default(*_: Any, **__: Any) -> tuple[Credentials, str]:
        return Credentials("token"), LocalCloud.project

    patch.setattr(httplib2.Http, "request", request)
    patch.setattr(requests.adapters.HTTPAdapter, "send", send)
    patch.setattr(TpuGrpcTransport, "create_channel", classmethod(create_channel))
    patch.setattr(google.auth, "default", default)
