"""Slices of Compute Engine set themselves up when they are recreated without a controller."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from compute_fleet import ONE, PAIR, PEOPLE, A, ComputeFleet, metadata
from fleet import changes, wait_until

COUNT = """
import os, pathlib, time
saved = pathlib.Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"]) / "step"
step = int(saved.read_text()) if saved.exists() else 0
print("begins after", step)
while True:
    time.sleep(0.2)
    step += 1
    saved.with_suffix(".new").write_text(str(step))
    saved.with_suffix(".new").replace(saved)
    print("step", step, "loss 0")
"""
# With which the machines read what was published for them. Nothing is given without a declaration.
ACCOUNT = "123456789012-compute@developer.gserviceaccount.com"
RUN = {"user": "alice", "needs_tpu": False}
FLEET: dict[str, Any] = {
    **PEOPLE,
    "fleet_self_setup": {"bucket": "gs://lab/fleet", "endpoint": "http://169.254.169.254"},
    "fleet_disks": [
        {
            "name": "kept",
            "size": "10GiB",
            "slices": ["phoenix"],
            "path": "/mnt/kept",
            "user": "alice",
        },
    ],
    "fleet_slices": [
        {
            "name": "phoenix",
            **ONE,
            "zone": A,
            "self_setup": True,
            "service_account": ACCOUNT,
        },
        {"name": "twin", **PAIR, "zone": A, "self_setup": True, "service_account": ACCOUNT},
    ],
    "fleet_runs": [
        {
            **RUN,
            "name": "count",
            "slices": ["phoenix"],
            "command": shlex.join(["exec", "python3", "-uc", COUNT]),
            "checkpoint_dir": "/mnt/kept/count",
        },
        {
            **RUN,
            "name": "gang",
            "slices": ["twin"],
            "command": "echo coordinator $TPU_FLEET_COORDINATOR; exec sleep 100000",
        },
    ],
}
MADE = (
    *("name", "machineType", "disks", "networkInterfaces", "labels", "scheduling"),
    "serviceAccounts",
)
HOSTS = (("phoenix", 0), ("twin", 0), ("twin", 1))


def root(fleet: ComputeFleet, name: str, worker: int, command: str) -> str:
    """Run a command on a worker, by the address that the API shows; nothing while it is away."""
    found = fleet.of(name)
    if worker >= len(found) or found[worker]["status"] != "RUNNING":
        return ""
    address = found[worker]["networkInterfaces"][0]["accessConfigs"][0]["natIP"]
    return fleet.root_at(address, command)


def read(fleet: ComputeFleet, name: str, worker: int, path: str) -> dict[str, Any]:
    told = root(fleet, name, worker, f"cat /var/lib/tpu-fleet/{path}")
    return json.loads(told) if told else {}


def wait_run(fleet: ComputeFleet, name: str, worker: int, run: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = read(fleet, name, worker, f"runs/{run}/status.json")
        return found if found.get("state") == "running" else None

    return wait_until(f"{run} on {name} {worker}", look, 300)


def ask_again(fleet: ComputeFleet) -> None:
    """Recreate both slices, as a user does who only knows Google's API."""
    there = fleet.of("phoenix")[0]
    again = {key: there[key] for key in MADE}
    own = ("enable-guest-attributes", "ssh-keys", "startup-script")
    items = [{"key": key, "value": metadata(there)[key]} for key in own if key in metadata(there)]
    again["metadata"] = {"items": items}
    again["disks"] = [disk for disk in there["disks"] if not disk["boot"]]
    again["disks"].insert(0, {"boot": True, "autoDelete": True})
    again["networkInterfaces"] = [{"accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}]
    fleet.do("DELETE", f"zones/{A}/instances/phoenix")
    fleet.do("POST", f"zones/{A}/instances", again)
    group = f"zones/{A}/instanceGroupManagers/twin"
    fleet.do("POST", f"{group}/resize", size="0")
    wait_until("an empty group", lambda: not fleet.of("twin"), 120)
    fleet.do("POST", f"{group}/resize", size="2")


def test_made_again_without_a_controller_they_go_on(fleet: ComputeFleet) -> None:
    url = f"http://127.0.0.1:{fleet.port}/storage/v1/b?project=local-project"
    fleet.run("curl", "-sf", "-X", "POST", url, "-d", '{"name": "lab"}')
    fleet.declare(FLEET)
    fleet.play("site.yml")
    before = wait_run(fleet, "phoenix", 0, "count")
    reached = fleet.wait_step("phoenix", "count", 20)
    pair = [wait_run(fleet, "twin", worker, "gang") for worker in (0, 1)]
    group = fleet.there("instanceGroupManagers")["twin"]["id"]
    gone = {one["id"] for name in ("phoenix", "twin") for one in fleet.of(name)}

    ask_again(fleet)
    for name, worker in HOSTS:

        def is_done(name: str = name, worker: int = worker) -> bool:
            return bool(read(fleet, name, worker, "self-setup.json").get("state") == "done")

        wait_until(f"{name} {worker} is set up", is_done, 400)
    now = {one["id"] for name in ("phoenix", "twin") for one in fleet.of(name)}
    assert len(now) == 3
    assert now.isdisjoint(gone)
    # The machine of an instance is told its id; those of a group keep that of their group.
    uid = fleet.of("phoenix")[0]["id"]
    assert read(fleet, "phoenix", 0, "state.json")["node_uid"] == uid
    assert read(fleet, "twin", 1, "state.json")["node_uid"] == group

    after = wait_run(fleet, "phoenix", 0, "count")
    assert after["run_id"] == before["run_id"]
    assert after["attempt"] > before["attempt"]
    log = root(fleet, "phoenix", 0, "cat /var/log/tpu-fleet/runs/count/run.log")
    begun = re.search(r"begins after (\d+)", log)
    assert begun
    assert int(begun[1]) >= reached
    both = [wait_run(fleet, "twin", worker, "gang") for worker in (0, 1)]
    assert {one["boot_id"] for one in both}.isdisjoint(one["boot_id"] for one in pair)
    assert len({one["attempt"] for one in both}) == 1
    leader = fleet.internal("twin")[0]
    log = root(fleet, "twin", 1, "cat /var/log/tpu-fleet/runs/gang/run.log")
    assert f"coordinator {leader}:" in log

    # The controller finds what it would have made, but for the keys of the gangs, which are secret.
    told = fleet.play("site.yml")
    assert set(re.findall(r"^applying: \[(\S+)\] (.*?) \(", told, re.M)) == {
        (host, "training_run") for host in ("phoenix", "twin-w0", "twin-w1")
    }, told
    assert not any(failed for _changed, *failed in changes(told).values() if any(failed))
    assert wait_run(fleet, "phoenix", 0, "count")["pid"] == after["pid"]
