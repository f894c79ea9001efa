"""A local cloud without machines, in a thread of the test."""

from __future__ import annotations

import asyncio
import os
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

import requests

from tpu_local_cloud.serve.server import Server

ROOT = Path(__file__).resolve().parents[3]


# Where time passes, nobody waits for minutes; see `tpu-local-cloud delays`.
SHORT = {"all": 0.5, "create": 1.0, "maintain": 1.0, "suspend": 1.0, "update": 0.2}


def reservation_of_a_day(begins: datetime, chips: int) -> dict[str, Any]:
    """Return the body of a future reservation of v6e chips for one day, called `day`."""
    ends = begins + timedelta(days=1)
    return {
        "name": "day",
        "reservationMode": "CALENDAR",
        "reservationName": "day",
        "planningStatus": "SUBMITTED",
        "timeWindow": {"startTime": begins.isoformat(), "endTime": ends.isoformat()},
        "aggregateReservation": {
            "vmFamily": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E",
            "reservedResources": [{"accelerator": {"acceleratorCount": chips}}],
        },
    }


class Emulator:
    """One cloud of addresses; its clock is immediate, if not said otherwise."""

    project = "local-project"
    zone = "us-central2-b"

    def __init__(self, **config: Any) -> None:
        delays = {**SHORT, **config.pop("delays", {})}
        config = {"hosts": "none", "clock": "immediate", "port": 0, **config}
        self.config: dict[str, Any] = {**config, "delays": delays}
        self.start()

    def start(self) -> None:
        """Serve, until stop."""
        self.server = Server(self.config)
        self._thread = threading.Thread(
            target=asyncio.run, args=(self.server.serve(),), daemon=True
        )
        self._thread.start()
        if not self.server.ready.wait(20):
            raise RuntimeError("the emulator did not start")
        self.url = self.server.url

    def stop(self) -> None:
        """Stop serving; what has a state_dir can be started again."""
        self.server.stop()
        self._thread.join(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def control(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        """Ask the control interface."""
        answer = requests.request(method, f"{self.url}_cloud/{path}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def fault(self, kind: str, **fields: Any) -> None:
        """Switch a fault on."""
        self.control("faults", {"kind": kind, **fields})

    def populate(
        self, count: int, prefix: str = "node", zone: str | None = None, **body: Any
    ) -> None:
        """Add READY nodes."""
        fields = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base", **body}
        self.control(
            "populate", {"zone": zone or self.zone, "count": count, "prefix": prefix, **fields}
        )

    def env(self, **more: str) -> dict[str, str]:
        """Return an environment that points our tools and Google's at this cloud."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CLOUDSDK_", "GOOGLE_"))}
        return {
            **kept,
            "PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{kept['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": self.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{self.url}compute/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": self.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": self.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": self.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{self.url}storage/v1/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_CORE_PROJECT": self.project,
            "GOOGLE_CLOUD_PROJECT": self.project,
            **more,
        }


class CloudClock:
    """The time of a cloud whose owner advances it; a wait does."""

    def __init__(self, cloud: Emulator) -> None:
        self._cloud, self._time = cloud, 0.0

    def now(self) -> float:
        """Return the seconds that were waited."""
        return self._time

    def sleep(self, seconds: float) -> None:
        """Let so many seconds of the cloud pass."""
        self._time += seconds
        self._cloud.control("clock", {"advance": seconds})
