"""Starts that would hang in silence: a blocked port between workers, chips that do not initialise.

`.venv/bin/pytest tests/machines/stories/test_starts.py`
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import NOTHING, Fleet, wait_until

# In CI tests/cloud/run_agent has the agents as processes, and tests/unit the watcher's decisions.
pytestmark = pytest.mark.night

BUSY = "TPU initialization failed: open(/dev/vfio/0): Device or resource busy"
# Worker 0 goes on when its start is to come to a step.
STARTS = """
until [ -e /tmp/go ]; do sleep 0.2; done
while sleep 1; do s=$((s+1)); echo "{\\"step\\": $s}" > $TPU_FLEET_PROGRESS.new
mv $TPU_FLEET_PROGRESS.new $TPU_FLEET_PROGRESS; done
"""
# Chips that are bad until their machine is another one.
FAILS = f"""
[ -e /var/lib/bad-chips ] && echo "{BUSY}" && exit 1
[ "$TPU_FLEET_WORKER" = 1 ] || ! [ -e /var/lib/beside-bad-chips ] || exit 1
exec sleep 100000
"""


def wanted(command: str, **more: Any) -> dict[str, Any]:
    return {
        **NOTHING,
        "fleet_slices": [
            {
                "name": "pair",
                "accelerator_type": "v4-16",
                "zone": "us-central2-b",
                "metadata": {"local-cloud-chips": "4"},
                "on_bad_chips": "recreate",
            }
        ],
        "fleet_base_packages": ["sudo", "tmux", "tzdata", "rsync"],
        "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
        "fleet_runs": [
            {"name": "starts", "slices": ["pair"], "user": "alice", "command": command}
        ],
        **more,
    }  # fmt: skip


@pytest.fixture
def watcher(fleet: Fleet) -> Iterator[list[subprocess.Popen[str]]]:
    """The watchers that a story starts; none outlives it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def reasons(fleet: Fleet) -> str:
    runs = fleet.report("tpu-fleet", "runs", "--json")["runs"]
    return "; ".join(reason for run in runs for reason in run["reasons"])


def blocked(fleet: Fleet) -> list[dict[str, Any]]:
    rows = fleet.report("tpu-fleet", "doctor", "--json", codes=(0, 1, 2))["rows"]
    return [row for row in rows if row["check"] == "worker_ports" and row["status"] == "fail"]


def test_a_blocked_port_is_named_with_the_command_that_opens_it(fleet: Fleet) -> None:
    fault = "fault add port_blocked --match node=pair --match worker=0 --option ports=8482"
    fleet.run("tpu-fleet", "cloud", *fault.split())
    fleet.declare(wanted(STARTS))
    fleet.play("site.yml")
    told = "worker 1 cannot reach worker 0:8482 (JAX's coordinator): a firewall; open it: gcloud"
    said = wait_until("the sentence", lambda: told in (found := reasons(fleet)) and found, 120)
    assert "--network=default --allow=tcp:8482 --source-ranges=10." in said
    # It is no obstacle: the program runs, and may need no such port.
    assert fleet.status("pair-w1", "starts")["state"] == "running"
    (row,) = blocked(fleet)
    assert row["host"] == "pair"
    assert "worker 1 cannot reach worker 0:8482" in row["says"]
    assert "gcloud compute firewall-rules create" in row["remedy"]

    for host in ("pair-w0", "pair-w1"):
        fleet.ssh(host, "touch /tmp/go")
    wait_until("a start that came to a step", lambda: told not in reasons(fleet), 60)
    fleet.run("tpu-fleet", "cloud", "fault", "clear")
    wait_until("an open port", lambda: not blocked(fleet), 60)


def test_a_slice_with_bad_chips_is_recreated_and_its_run_goes_on(
    fleet: Fleet, tmp_path: Path, watcher: list[subprocess.Popen[str]]
) -> None:
    more = {"fleet_results_dir": str(tmp_path / "collected")}
    fleet.declare({**wanted(FAILS, **more), "fleet_runs": []})
    fleet.play("site.yml")
    before = node(fleet)
    fleet.ssh("pair-w1", "sudo touch /var/lib/bad-chips")
    fleet.ssh("pair-w0", "sudo touch /var/lib/beside-bad-chips")
    fleet.declare(wanted(FAILS, **more))
    fleet.play("site.yml")
    wait_until("two starts that they fail", lambda: counted(fleet) >= 2, 120)
    assert BUSY in reasons(fleet)

    watcher.append(fleet.start("tpu-fleet", "watch", "run", "--interval=2", "--hosts-interval=10"))
    wait_until("another node", lambda: (node(fleet) or before) != before, 600)
    wait_until("a run that goes on", lambda: state_of(fleet) == "running", 600)
    log = (tmp_path / "collected/starts/pair-w1/run.log").read_text()
    assert BUSY in log


def node(fleet: Fleet) -> str:
    """Return the node of the slice; empty while there is none."""
    return str(fleet.cloud().get("pair", {}).get("uid", ""))


def counted(fleet: Fleet) -> int:
    return int((fleet.status("pair-w1", "starts").get("bad_chips") or {}).get("times", 0))


def state_of(fleet: Fleet) -> str:
    # While the slice is recreated it has no workers, or they give no answer.
    runs = fleet.report("tpu-fleet", "runs", "--json", codes=(0, 1, 2))["runs"]
    return str(runs[0]["state"]) if runs else ""
