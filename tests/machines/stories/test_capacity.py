"""How the slices come, go and come back: on real machines, in the cloud's own, fast time.

One story alone: `.venv/bin/pytest tests/machines/stories -k stock_out`
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from fleet import NOTHING, Fleet, interrupt, wait_until

# In CI tests/cloud/capacity has the same answers of the API, without machines.
pytestmark = pytest.mark.night

A, B = "us-east1-d", "europe-west4-a"
GRANT = [{"zone": zone, "generation": "v6e", "tier": "spot", "chips": 8} for zone in (A, B)]
HUNT = {"name": "hunt", "accelerator_type": "v6e-8", "zones": [A, B], "tier": "spot"}
PROVISION = "tpu.fleet.provision"
HISTORY = ("tpu-fleet", "cloud", "history")


def declare(fleet: Fleet, *slices: dict[str, Any], **more: Any) -> None:
    fleet.declare({**NOTHING, "fleet_allocations": GRANT, "fleet_slices": list(slices), **more})


def now(fleet: Fleet) -> datetime:
    return datetime.fromisoformat(fleet.state()["clock"]["time"])


def requests_for(fleet: Fleet, name: str) -> int:
    return sum(name in line for line in fleet.run(*HISTORY).splitlines())


def where(fleet: Fleet) -> dict[str, str]:
    return {name: node["zone"] for name, node in fleet.cloud().items()}


def test_stock_out_in_the_first_zone_and_the_slice_comes_up_in_the_second(fleet: Fleet) -> None:
    declare(fleet, HUNT)
    out = ("fault", "add", "stock_out", "--match", f"zone={A}")
    fleet.run("tpu-fleet", "cloud", *out)
    told = fleet.play(PROVISION)
    assert f"hunt: no capacity for v6e-8 in {A}" in told
    assert where(fleet) == {"hunt": B}
    assert fleet.ssh("hunt", "hostname").strip()
    # Where it is, it stays, also when the better zone has capacity again.
    fleet.run("tpu-fleet", "cloud", "fault", "clear")
    assert "changed=0" in fleet.play(PROVISION)


def test_a_suspended_request_is_cleared_and_made_again(fleet: Fleet) -> None:
    declare(fleet, {**HUNT, "queued": True})
    fleet.play(PROVISION)
    before = fleet.cloud()["hunt"]["uid"]
    fleet.run("tpu-fleet", "cloud", "suspend", "hunt")
    wait_until("the suspension", lambda: "SUSPENDED" in str(fleet.state()), 60)
    told = fleet.play(PROVISION)
    assert re.search(r"- delete queued resource hunt \(v6e-8, SUSPENDED\)", told)
    assert fleet.cloud()["hunt"]["uid"] != before
    assert fleet.ssh("hunt", "hostname").strip()


def test_a_race_keeps_the_zone_that_was_first(fleet: Fleet) -> None:
    declare(fleet, {**HUNT, "strategy": "race"})
    fleet.run("tpu-fleet", "cloud", "fault", "add", "stock_out", "--match", f"zone={A}")
    fleet.play(PROVISION)
    assert where(fleet) == {"hunt": B}
    assert [q["zone"] for q in fleet.state()["queued_resources"]] == [B]


MOUNT = """#!/bin/sh
disk=/dev/disk/by-id/google-persistent-disk-1
blkid $disk || mkfs.ext4 -q $disk
mkdir -p /mnt/data
mountpoint -q /mnt/data || mount $disk /mnt/data
chmod 1777 /mnt/data
"""


def test_a_preempted_spot_slice_comes_back_and_its_run_goes_on(fleet: Fleet) -> None:
    """The boot disk is lost with the slice; the checkpoints are on a data disk."""
    train = "python train.py --steps 100000 --checkpoint-every 20 --step-seconds 0.1"
    run = {
        "name": "hunted",
        "slices": ["hunt"],
        "user": "alice",
        "venv": "jax",
        "code": "digits",
        "command": train,
        "checkpoint_dir": "/mnt/data/hunted",
    }
    demo = (
        "fleet_users",
        "fleet_venvs",
        "fleet_code",
    )
    wanted = {
        "fleet_allocations": GRANT,
        "fleet_slices": [{**HUNT, "zones": [A], "startup_script": MOUNT}],
        "fleet_disks": [{"name": "checkpoints", "size": "10GiB", "slices": ["hunt"]}],
        "fleet_runs": [run],
    }
    fleet.declare({key: value for key, value in NOTHING.items() if key not in demo} | wanted)
    fleet.play("site.yml")
    before = wait_until(
        "a checkpoint", lambda: (step := fleet.steps("hunt", "hunted")) > 40 and step, 180
    )
    uid = fleet.cloud()["hunt"]["uid"]
    fleet.run("tpu-fleet", "cloud", "preempt", "hunt")
    fleet.play("tpu.fleet.reprovision")
    assert fleet.cloud()["hunt"]["uid"] != uid
    begun = wait_until(
        "the run", lambda: re.findall(r"begins at step (\d+)", fleet.log("hunt", "hunted")), 180
    )
    assert int(begun[0]) > 0, "it began anew"
    wait_until("progress", lambda: fleet.steps("hunt", "hunted") > before, 120)


def test_ctrl_c_in_the_middle_and_taken_up_again(fleet: Fleet) -> None:
    declare(fleet, HUNT)
    fleet.run("tpu-fleet", "cloud", "fault", "add", "stock_out")
    # The stories before this one asked for a hunt too.
    before = requests_for(fleet, "hunt")
    first = fleet.start("ansible-playbook", PROVISION)
    wait_until("a request", lambda: requests_for(fleet, "hunt") > before, 60)
    told = interrupt(first)
    assert "hunt: coming: asking for" in told
    assert fleet.cloud() == {}
    fleet.run("tpu-fleet", "cloud", "fault", "clear")
    # Zones whose requests failed for want of capacity in the last ten minutes are tried last.
    fleet.run("tpu-fleet", "cloud", "clock", "--advance", "601")
    fleet.play(PROVISION)
    assert where(fleet) == {"hunt": A}


def test_the_grant_ends_tomorrow_and_then_has_ended(fleet: Fleet) -> None:
    ends = (now(fleet) + timedelta(hours=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept, gone = (
        {**HUNT, "name": "kept", "zones": [A]},
        {**HUNT, "name": "gone", "zones": [B], "on_grant_end": "delete"},
    )
    declare(
        fleet,
        kept,
        gone,
        fleet_allocations=[{**entry, "ends": ends} for entry in GRANT],
        fleet_disks=[{"name": "data", "size": "10GiB", "slices": ["gone"]}],
    )
    warned = fleet.play(PROVISION)
    assert re.search(r"\[WARNING\].*v6e chips.*in 2[0-9] hours", " ".join(warned.split()))
    assert "changed=0" in fleet.play("tpu.fleet.expiry")
    fleet.run("tpu-fleet", "cloud", "clock", "--advance", str(31 * 3600))
    told = fleet.play("tpu.fleet.expiry")
    assert "- delete node gone" in told
    assert "kept" in fleet.cloud()
    assert "gone" not in fleet.cloud()
    assert "still runs" in " ".join(told.split())
    disks = f"http://127.0.0.1:{fleet.port}/compute/v1/projects/local-project/zones/{B}/disks"
    assert '"data"' in fleet.run("curl", "-s", disks)
    again = fleet.play(PROVISION)
    assert "gone: ended: the grant for v6e-8" in again, "nothing is created after the end"
    assert "gone" not in fleet.cloud()
