"""Data disks are block devices in the machines, and outlive them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from container_cloud import ZONE, ContainerCloud, eventually

from tpu_local_cloud.machines.layout import SHARED_LIB, Layout

GB = 1 << 30
BY_ID = "/dev/disk/by-id"
# As people write it for TPU VMs.
STARTUP = (
    f"d={BY_ID}/google-persistent-disk-1; blkid $d || mkfs.ext4 -q $d; mkdir -p /mnt/data; "
    "mountpoint -q /mnt/data || mount $d /mnt/data"
)


def _make(cloud: ContainerCloud, name: str, size: int = 10) -> None:
    path = f"compute/v1/projects/local-project/zones/{ZONE}/disks"
    cloud.call("POST", path, {"name": name, "sizeGb": str(size)})


def _destroy(cloud: ContainerCloud, name: str) -> None:
    cloud.call("DELETE", f"compute/v1/projects/local-project/zones/{ZONE}/disks/{name}")


def _disks(*names: str, mode: str = "READ_WRITE") -> list[dict[str, str]]:
    prefix = f"projects/local-project/zones/{ZONE}/disks"
    return [{"sourceDisk": f"{prefix}/{name}", "mode": mode} for name in names]


def _body(cloud: ContainerCloud, *disks: str, kind: str = "v4-8", **more: Any) -> dict[str, Any]:
    public = cloud.key.with_suffix(".pub").read_text().strip()
    return {
        "acceleratorType": kind,
        "runtimeVersion": "tpu-ubuntu2204-base",
        "networkConfig": {"enableExternalIps": True},
        "metadata": {"ssh-keys": f"ubuntu:{public}", "startup-script": STARTUP},
        "dataDisks": _disks(*disks),
        **more,
    }


def _create(cloud: ContainerCloud, node: str, body: dict[str, Any]) -> list[str]:
    """Create a node and return the external addresses of its workers."""
    parent = cloud.path(node).rpartition("/")[0]
    cloud.call("POST", f"{parent}?nodeId={node}", body)
    return [external for _, external in cloud.addresses(node)]


def _attach(
    cloud: ContainerCloud, node: str, *disks: str, mode: str = "READ_WRITE"
) -> dict[str, Any]:
    wanted = {"dataDisks": _disks(*disks, mode=mode)}
    return cloud.call("PATCH", f"{cloud.path(node)}?updateMask=data_disks", wanted)


def _file(cloud: ContainerCloud, name: str) -> Path:
    return Layout(cloud.state_dir).home / "disks" / ZONE / f"{name}.img"


def _loops(cloud: ContainerCloud) -> list[str]:
    """Return what losetup knows of this cloud's disks."""
    done = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True)
    home = str(Layout(cloud.state_dir).home)
    return [line for line in done.stdout.splitlines() if home in line]


def _mounted(cloud: ContainerCloud, address: str) -> None:
    eventually(lambda: cloud.try_ssh(address, "mountpoint -q /mnt/data").returncode == 0, 120)


def test_a_spot_slice_finds_its_checkpoints_again(container_cloud: ContainerCloud) -> None:
    cloud = container_cloud
    _make(cloud, "checkpoints")
    assert not _file(cloud, "checkpoints").exists()
    queued = cloud.path("").replace("/nodes/", "/queuedResources")
    spec = {
        "parent": f"projects/local-project/locations/{ZONE}",
        "nodeId": "trains",
        "node": _body(cloud, "checkpoints", schedulingConfig={"spot": True}),
    }
    body = {"tpu": {"nodeSpec": [spec]}, "spot": {}}
    cloud.call("POST", f"{queued}?queuedResourceId=wish", body)
    eventually(lambda: cloud.call("GET", f"{queued}/wish")["state"]["state"] == "ACTIVE")
    ((_, address),) = cloud.addresses("trains")
    _mounted(cloud, address)
    assert cloud.ssh(address, f"sudo blockdev --getsize64 {BY_ID}/google-checkpoints") == str(
        10 * GB
    )
    # It takes no more room than was written to it.
    assert _file(cloud, "checkpoints").stat().st_blocks * 512 < GB
    cloud.ssh(address, "echo 1000 | sudo tee /mnt/data/step")
    cloud.command("preempt", "trains")
    eventually(lambda: not _loops(cloud))
    cloud.call("DELETE", f"{queued}/wish?force=true")

    (address,) = _create(cloud, "trains", _body(cloud, "checkpoints"))
    _mounted(cloud, address)
    assert cloud.ssh(address, "cat /mnt/data/step") == "1000"
    cloud.delete("trains")
    assert _loops(cloud) == []
    assert _file(cloud, "checkpoints").exists()
    _destroy(cloud, "checkpoints")
    assert not _file(cloud, "checkpoints").exists()


def test_disks_come_and_go_while_the_machine_runs(container_cloud: ContainerCloud) -> None:
    cloud = container_cloud
    for name in ("one", "two"):
        _make(cloud, name)
    ((_, address),) = cloud.create("runs")
    assert cloud.try_ssh(address, "ls /dev/sdb").returncode != 0
    _attach(cloud, "runs", "one", "two")
    shown = f"cd {BY_ID} && for link in *; do echo $link $(basename $(readlink $link)); done"
    assert cloud.ssh(address, shown).splitlines() == [
        "google-one sdb",
        "google-persistent-disk-1 sdb",
        "google-persistent-disk-2 sdc",
        "google-two sdc",
    ]
    cloud.ssh(
        address,
        f"sudo mkfs.ext4 -q {BY_ID}/google-two && sudo mkdir /mnt/two && "
        f"echo '{BY_ID}/google-two /mnt/two ext4 defaults,nofail 0 2' | sudo tee -a /etc/fstab && "
        "sudo mount /mnt/two && echo kept | sudo tee /mnt/two/file",
    )
    # Nobody but the keeper is there to boot it.
    os.kill(cloud.server_pid, signal.SIGKILL)
    boot_id = cloud.boot_id(address)
    cloud.try_ssh(address, "sudo reboot")
    eventually(lambda: cloud.boot_id(address) not in (None, boot_id))
    assert cloud.ssh(address, "cat /mnt/two/file") == "kept"
    cloud.up()
    assert len(_loops(cloud)) == 2
    # What stays keeps its place.
    _attach(cloud, "runs", "two")
    assert cloud.ssh(address, f"ls {BY_ID}").split() == ["google-persistent-disk-2", "google-two"]
    assert cloud.ssh(address, "cat /mnt/two/file") == "kept"
    assert len(_loops(cloud)) == 1
    cloud.call(
        "POST",
        f"compute/v1/projects/local-project/zones/{ZONE}/disks/two/resize",
        {"sizeGb": "20"},
    )
    assert cloud.ssh(address, "sudo blockdev --getsize64 /dev/sdc") == str(20 * GB)
    _attach(cloud, "runs")
    assert cloud.try_ssh(address, "ls /dev/sd*").returncode != 0
    assert cloud.try_ssh(address, "mountpoint -q /mnt/two").returncode != 0
    assert _loops(cloud) == []
    # What is still open goes at the latest with the machine.
    _attach(cloud, "runs", "two")
    cloud.ssh(address, f"sudo mount {BY_ID}/google-two /mnt/two")
    cloud.ssh(address, "sudo systemd-run -q sh -c 'exec sleep 1000 < /mnt/two/file'")
    eventually(lambda: cloud.try_ssh(address, "pgrep -x sleep").returncode == 0)
    _attach(cloud, "runs")
    (held,) = _loops(cloud)
    cloud.delete("runs")
    assert _loops(cloud) == []
    assert not Path(held.partition(":")[0]).exists()
    for name in ("one", "two"):
        _destroy(cloud, name)


def test_one_disk_for_all_workers_and_nothing_else_of_the_computer(
    own_cloud: ContainerCloud,
) -> None:
    cloud = own_cloud
    cloud.up()
    for name in ("data", "secret"):
        _make(cloud, name)
    (address,) = _create(cloud, "writes", _body(cloud, "data"))
    _mounted(cloud, address)
    cloud.ssh(address, "echo read me | sudo tee /mnt/data/file")
    cloud.delete("writes")
    wanted = _body(cloud, kind="v4-16", dataDisks=_disks("data", mode="READ_ONLY"))
    readers = _create(cloud, "reads", wanted)
    for address in readers:
        _mounted(cloud, address)
        assert cloud.ssh(address, "cat /mnt/data/file") == "read me"
        denied = cloud.try_ssh(address, "sudo dd if=/dev/zero of=/dev/sdb count=1 conv=fsync")
        assert denied.returncode != 0
    _create(cloud, "other", _body(cloud, "secret"))
    (secret,) = [line for line in _loops(cloud) if "/secret.img" in line]
    minor = secret.partition(":")[0].removeprefix("/dev/loop")
    spy = f"sudo mknod /dev/spy b 7 {minor} && sudo head -c 1 /dev/spy"
    assert "not permitted" in cloud.try_ssh(readers[0], spy).stderr
    assert len(_loops(cloud)) == 3
    devices = [line.partition(":")[0] for line in _loops(cloud)]
    cloud_id = Layout(cloud.state_dir).cloud_id
    # With disks attached and mounted, and without asking anybody.
    cloud.down()
    assert _loops(cloud) == []
    assert not any(Path(device).exists() for device in devices)
    assert cloud_id not in [path.read_text() for path in SHARED_LIB.glob("loops/*")]
    assert not Layout(cloud.state_dir).home.exists()
