"""The life of a data disk: formatted when empty, back after a reboot, grown, never lost."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from fleet import NOTHING, Fleet, changes, wait_until

# In CI molecule's scenario data_disk has the machine's part, and
# local_cloud/tests/machines/test_disks.py the cloud's.
pytestmark = pytest.mark.night

ZONE = "us-central2-b"


def declare(fleet: Fleet, **mounted: dict[str, Any]) -> None:
    """Declare two disks of a slice, and how they are mounted, by their names."""
    disks = [
        {"name": name, "size": "10GiB", "slices": ["store"], **mounted.get(name, {})}
        for name in ("checkpoints", "archive")
    ]
    store = {"name": "store", "accelerator_type": "v4-8", "zone": ZONE}
    fleet.declare({**NOTHING, "fleet_disks": disks, "fleet_slices": [store]})


def mount(fleet: Fleet, ok: bool = True) -> str:
    told = fleet.play("tpu.fleet.configure", "--tags", "data_disk", ok=ok)
    return " ".join(told.split())


def root(fleet: Fleet, script: str) -> str:
    return fleet.ssh("store", f"sudo bash <<'END'\nset -eu\n{script}\nEND").strip()


def test_the_life_of_a_disk(fleet: Fleet) -> None:
    checkpoints = {"path": "/mnt/checkpoints", "user": "ubuntu"}
    declare(fleet, checkpoints=checkpoints)
    fleet.play("tpu.fleet.disks")
    fleet.play("tpu.fleet.provision")

    mount(fleet)
    assert "ubuntu" in fleet.ssh("store", "echo 1000 > /mnt/checkpoints/step; stat -c %U /mnt/*")
    assert changes(fleet.play("tpu.fleet.configure", "--tags", "data_disk"))["store"][0] == 0

    # Nobody but the machine itself mounts it when it boots.
    boot = root(fleet, "cat /proc/sys/kernel/random/boot_id")
    fleet.run("tpu-fleet", "cloud", "reboot", "store")
    wait_until("the boot", lambda: root(fleet, "cat /proc/sys/kernel/random/boot_id") != boot, 60)
    assert root(fleet, "mountpoint -q /mnt/checkpoints; cat /mnt/checkpoints/step") == "1000"

    # Twice as large: the file system follows, and the file is still there.
    base = f"http://127.0.0.1:{fleet.port}/compute/v1/projects/local-project/zones/{ZONE}/disks"
    requests.post(
        f"{base}/checkpoints/resize", json={"sizeGb": "20"}, timeout=60
    ).raise_for_status()
    size = "blockdev --getsize64 /dev/disk/by-id/google-checkpoints"
    wait_until("the larger disk", lambda: root(fleet, size) == str(20 << 30), 30)
    mount(fleet)
    blocks = "df --block-size=1G --output=size /mnt/checkpoints | tail -1"
    assert int(root(fleet, blocks)) >= 19
    assert root(fleet, "cat /mnt/checkpoints/step") == "1000"

    # What others wrote is never touched: swap, a file system, plain bytes.
    device = "/dev/disk/by-id/google-archive"
    for write, words in (
        (f"mkswap {device}", "has swap"),
        (f"wipefs -qa {device}; mkfs.ext4 -q {device}", "did not create for it"),
        (f"wipefs -qa {device}; echo precious | dd of={device} status=none", "of an unknown kind"),
    ):
        root(fleet, write)
        before = root(fleet, f"head -c 64M {device} | sha256sum")
        declare(fleet, checkpoints=checkpoints, archive={"path": "/mnt/archive"})
        assert words in mount(fleet, ok=False)
        assert root(fleet, f"head -c 64M {device} | sha256sum") == before

    # Somebody is in the folder of a disk that is not declared any more.
    declare(fleet)
    root(fleet, "systemd-run --quiet --unit=busy --working-directory=/mnt/checkpoints sleep 600")
    told = mount(fleet, ok=False)
    assert "/mnt/checkpoints is used by process" in told
    assert "sleep 600" in told
    root(fleet, "systemctl stop busy")
    mount(fleet)
    assert root(fleet, "grep -c x-tpu-fleet /etc/fstab || true") == "0"
    declare(fleet, checkpoints=checkpoints)
    mount(fleet)
    assert root(fleet, "cat /mnt/checkpoints/step") == "1000"
