"""A run over two slices is one gang, also when one of them is recreated with other addresses.

`.venv/bin/pytest tests/machines/stories/test_multislice.py`
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import NOTHING, Fleet, wait_until

# In CI tests/cloud/run_agent/test_multislice.py has the same gang as processes.
pytestmark = pytest.mark.night

ZONE = "us-central2-b"
HOSTS = ("left", "right")
SHOW = "env | grep -E '^(MEGASCALE|TPU_FLEET_WORKER|TPU_FLEET_ATT)' | sort; exec sleep 100000"


WHERE = {"accelerator_type": "v4-8", "zone": ZONE}
FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_slices": [{"name": name, **WHERE} for name in HOSTS],
    "fleet_base_packages": ["sudo", "tmux", "tzdata"],
    "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
    "fleet_runs": [
        {
            "name": "both",
            # The order of the run counts, not that of the slices.
            "slices": ["right", "left"],
            "multislice": True,
            "user": "alice",
            "command": SHOW,
            "needs_tpu": False,
        }
    ],
}


@pytest.fixture
def watcher(fleet: Fleet) -> Iterator[list[subprocess.Popen[str]]]:
    """The watchers that a story starts; none outlives it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def wait_attempt(fleet: Fleet, number: int, limit: float = 300) -> None:
    """Wait until both run the same attempt."""

    def look() -> bool:
        found = [fleet.status(host, "both") for host in HOSTS]
        return all((s.get("state"), s.get("attempt")) == ("running", number) for s in found)

    wait_until(f"attempt {number} on both", look, limit)


def address(fleet: Fleet, name: str) -> str:
    definition = json.loads(fleet.ssh(name, "sudo cat /etc/tpu-fleet/runs/both.json"))
    return str(definition["hosts"][definition["worker"]])


def told(fleet: Fleet, host: str) -> dict[str, str]:
    """Return what the last program found in its environment."""
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", fleet.log(host, "both"), re.M))


def test_two_slices_are_one_gang(fleet: Fleet, watcher: list[subprocess.Popen[str]]) -> None:
    fleet.declare(FLEET)
    fleet.play("site.yml")
    wait_attempt(fleet, 1)
    first = address(fleet, "right")
    for number, host in enumerate(["right", "left"]):
        found = wait_until("its environment", lambda host=host: told(fleet, host), 60)
        assert found["MEGASCALE_NUM_SLICES"] == "2"
        assert found["MEGASCALE_SLICE_ID"] == found["TPU_FLEET_WORKER"] == str(number)
        assert found["TPU_FLEET_WORKERS"] == "2"
        assert found["MEGASCALE_COORDINATOR_ADDRESS"] == f"{first}:{found['MEGASCALE_PORT']}"

    # Who reboots in one slice brings the other to the next attempt.
    fleet.run("tpu-fleet", "cloud", "reboot", "left")
    wait_attempt(fleet, 2)

    # A slice that is made anew has other addresses, of which the other one hears.
    before = address(fleet, "left")
    watcher.append(fleet.start("tpu-fleet", "watch", "run", "--interval=2", "--hosts-interval=10"))
    logs = fleet.folder / "state" / "watch"

    def works() -> bool:
        return any("is active now" in log.read_text() for log in logs.glob("*/watch.log"))

    wait_until("the watch", works, 180)
    fleet.run("tpu-fleet", "cloud", "preempt", "left")
    wait_attempt(fleet, 3, limit=900)
    after = address(fleet, "left")
    assert after != before
    definition = json.loads(fleet.ssh("right", "sudo cat /etc/tpu-fleet/runs/both.json"))
    assert definition["slices"] == [[address(fleet, "right")], [after]]
