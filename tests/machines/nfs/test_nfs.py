"""A share between machines with kernels of their own: real servers, real clients, real reboots.

The tests are one story, in this order.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from fleet import NOTHING, Fleet, changes, wait_until

ZONE = "us-central2-b"
OWN = {"local-cloud-kernel": "own"}
FILES = {"name": "files", "accelerator_type": "v4-8", "zone": ZONE, "metadata": OWN}
PAIR = {"name": "pair", "accelerator_type": "v4-16", "zone": ZONE, "metadata": OWN}
# A container, whose kernel has no NFS here; it is not asked to mount anything.
OTHER = {"name": "other", "accelerator_type": "v4-8", "zone": ZONE}
GRANT = [{"zone": ZONE, "generation": "v4", "tier": "on_demand", "chips": 32}]
TEAM = {"name": "team", "path": "/mnt/team", "slice": "files", "slices": ["pair"]}
# Whose programs wait for the server, for as long as it takes.
SAFE = {**TEAM, "name": "safe", "path": "/mnt/safe", "on_timeout": "wait"}
# The other path of the server is one that is mounted before it is exported.
DATA = {**TEAM, "name": "data", "path": "/mnt/data", "export_path": "/srv/disk/data"}
PEOPLE = [{"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}]
# Short, so that the tests need not wait: what is given up is given up after so many seconds.
PATIENCE = {
    "fleet_share_timeout": "12s",
    "fleet_share_mount_timeout": "6s",
    "fleet_share_grace": "10s",
}
CLIENTS = ("pair-w0", "pair-w1")
ALL = ("files", *CLIENTS)


def declare(fleet: Fleet, *shares: dict[str, Any], **more: Any) -> None:
    fleet.declare(
        {
            **NOTHING,
            "fleet_allocations": GRANT,
            "fleet_slices": [FILES, PAIR, OTHER],
            "fleet_users": PEOPLE,
            "fleet_shares": list(shares),
            **PATIENCE,
            **more,
        }
    )


def configure(fleet: Fleet) -> None:
    """Give new machines people and shares, in the usual way."""
    print(fleet.play("tpu.fleet.configure", "--tags", "user_accounts,nfs_share"))


def share(fleet: Fleet, *words: str) -> dict[str, tuple[int, int, int]]:
    """Apply the role alone, which takes a third of the time; return what it did, by host."""
    out = fleet.play("tests/machines/nfs/share.yml", *words)
    print(out)
    return changes(out)


def share_in_vain(fleet: Fleet, *words: str) -> str:
    """Apply the role where it refuses; return what it says, on one line."""
    return fleet.play("tests/machines/nfs/share.yml", *words, ok=False).replace("\n", " ")


def boot_id(fleet: Fleet, host: str) -> str:
    """Return the id of the boot, or nothing while the machine is away."""
    try:
        return fleet.ssh(host, "cat /proc/sys/kernel/random/boot_id").strip()
    except (AssertionError, subprocess.TimeoutExpired):
        return ""


def power(fleet: Fleet, name: str) -> str:
    """Return whether the one machine of a slice is running or stopped."""
    return str(fleet.cloud()[name]["workers"][0]["power"])


def reboot(fleet: Fleet, host: str) -> Callable[[], str]:
    """Begin a reboot; return what says the new boot's id when it is over."""
    before = boot_id(fleet, host)
    fleet.ssh(host, "sudo systemd-run --quiet --on-active=1 systemctl reboot")
    started = time.monotonic()

    def over() -> str:
        def again() -> str:
            now = boot_id(fleet, host)
            return now if now != before else ""

        found = wait_until(f"{host} is back", again, 300)
        print(f"{host}: back after {time.monotonic() - started:.0f} s")
        return found

    return over


def timed(fleet: Fleet, host: str, command: str, ok: bool = True) -> float:
    """Return how many seconds a command takes on a machine."""
    clock = "cut -d ' ' -f 1 /proc/uptime"
    out = fleet.ssh(host, f"{clock}; ({command}); code=$?; echo; {clock}; exit $code", ok=ok)
    # Whatever it printed stands between; what ssh says of the exit code, before it.
    begun, *_said, ended = re.findall(r"^\d+\.\d+$", out, re.M)
    return float(ended) - float(begun)


@pytest.fixture(scope="session")
def fleet(cloud: Fleet) -> Fleet:
    """The slices, fresh from the cloud."""
    declare(cloud, TEAM, SAFE)
    cloud.play("tpu.fleet.provision")
    return cloud


def test_a_file_of_one_is_everybodys_with_its_owner(fleet: Fleet) -> None:
    checked = share(fleet, "--check", "--diff")
    assert all(failed == 0 for _changed, _away, failed in checked.values()), checked
    fleet.ssh("files", "test ! -e /etc/exports.d -a ! -e /mnt/team -a ! -e /usr/sbin/exportfs")

    configure(fleet)
    again = share(fleet)
    assert set(again) >= {*ALL, "other"}
    assert all(one == (0, 0, 0) for one in again.values()), again

    fleet.ssh("pair-w0", "sudo -u alice sh -c 'echo from alice > /mnt/team/note'")
    assert fleet.ssh("pair-w1", "cat /mnt/team/note").strip() == "from alice"
    for host in ALL:
        assert fleet.ssh(host, "stat -c '%U %u' /mnt/team/note").strip() == "alice 2001"
    fleet.ssh("pair-w1", "sudo -u bob sh -c 'echo more >> /mnt/team/note'", ok=False)
    fleet.ssh("files", "sudo -u bob sh -c 'echo hers > /mnt/team/bob'")
    assert fleet.ssh("pair-w0", "stat -c %U /mnt/team/bob").strip() == "bob"


def test_root_of_a_client_is_nobody(fleet: Fleet) -> None:
    fleet.ssh("pair-w0", "sudo touch /mnt/team/root")
    assert fleet.ssh("files", "stat -c %U /mnt/team/root").strip() == "nobody"
    fleet.ssh("pair-w0", "sudo rm /mnt/team/note", ok=False)


def test_only_version_4_on_one_port_and_for_declared_clients(fleet: Fleet) -> None:
    listening = fleet.ssh("files", "ss -Hltn | awk '{print $4}' | sed 's/.*://' | sort -u").split()
    # mountd still opens ports of its own, if rpcbind does not: nobody may ask it for version 3.
    assert "2049" in listening
    assert "111" not in listening
    assert fleet.ssh("files", "sudo cat /proc/fs/nfsd/versions").split()[:1] == ["-3"]
    for host in ALL:
        fleet.ssh(host, "! systemctl is-active --quiet rpcbind.socket rpcbind.service")
    exported = fleet.ssh("files", "sudo exportfs -s")
    server = fleet.ssh("files", "hostname -I").split()[0]
    clients = [fleet.ssh(host, "hostname -I").split()[0] for host in CLIENTS]
    assert exported.count("/mnt/team") == len(clients)
    assert all(f"{address}(" in exported for address in clients)

    # The second worker is a stranger as soon as the share is the first one's alone.
    fleet.ssh(
        "files",
        f"sudo sed -i 's/ {clients[1]}([^)]*)//' /etc/exports.d/tpu-fleet.exports;"
        " sudo exportfs -ra",
    )
    fleet.ssh("pair-w1", "sudo systemctl stop mnt-team.mount")
    fleet.ssh("pair-w1", "cat /mnt/team/note", ok=False)
    fleet.ssh(
        f"{CLIENTS[0]}", f"sudo mkdir -p /tmp/m && sudo mount -t nfs4 {server}:/mnt/team /tmp/m"
    )
    fleet.ssh(CLIENTS[0], "sudo umount /tmp/m")
    # What somebody changed by hand is mended, and nobody else is bothered.
    mended = share(fleet)
    assert mended["files"][0] > 0
    assert mended["pair-w0"] == (0, 0, 0)
    assert fleet.ssh("pair-w1", "cat /mnt/team/note").strip() == "from alice"


def test_clients_wait_while_their_server_reboots(fleet: Fleet) -> None:
    before = boot_id(fleet, "files")
    writer = fleet.start(
        "ssh", "-F", str(fleet.ssh_config), "pair-w0",
        "sudo -u alice sh -c 'exec 3>/mnt/safe/log; for n in $(seq 1 40);"
        " do echo $n >&3 || echo lost $n; sleep 0.5; done; sync /mnt/safe/log || echo no sync'",
    )  # fmt: skip
    time.sleep(2)
    assert reboot(fleet, "files")() != before
    out = writer.communicate(timeout=120)[0]
    assert "lost" not in out, out
    assert "no sync" not in out, out
    assert fleet.ssh("files", "wc -l < /mnt/safe/log").strip() == "40"
    assert fleet.ssh("files", "stat -c %U /mnt/safe/log").strip() == "alice"


def test_nothing_hangs_when_the_server_is_gone(fleet: Fleet) -> None:
    fleet.ssh("pair-w0", "cat /mnt/team/note; sudo systemctl stop mnt-safe.mount")
    fleet.ssh("files", "sudo systemd-run --quiet --on-active=1 systemctl poweroff")
    wait_until("the server is off", lambda: power(fleet, "files") == "stopped", 60)

    # Who uses the share gets an error, and nobody else notices.
    assert timed(fleet, "pair-w0", "cat /mnt/team/note", ok=False) < 40
    assert timed(fleet, "pair-w0", "df > /dev/null; true") < 40
    assert timed(fleet, "pair-w0", "ls / /mnt > /dev/null") < 5

    # A client that boots meanwhile is there as soon as ever.
    assert reboot(fleet, "pair-w1")()
    assert timed(fleet, "pair-w1", "bash -lc 'ls / /mnt; df' > /dev/null") < 10
    assert timed(fleet, "pair-w1", "timeout 30 ls /mnt/team", ok=False) < 25
    wait_until(
        "the boot is over",
        lambda: "starting" not in fleet.ssh("pair-w1", "systemctl is-system-running; true"),
        30,
    )

    # Configuration says what is wrong, and goes on.
    out = fleet.play("tests/machines/nfs/share.yml", "--limit", "pair-w1")
    assert "/mnt/team (share team) does not answer" in out.replace("\n", " ")


def test_all_is_well_again_when_both_are_back(fleet: Fleet) -> None:
    client = reboot(fleet, "pair-w0")
    fleet.run("tpu-fleet", "cloud", "reboot", "files", "--worker", "0")
    client()
    for host in CLIENTS:
        wait_until(
            f"{host} reads again",
            lambda host=host: "from alice" in fleet.ssh(host, "cat /mnt/team/note; true"),
            60,
        )
    again = share(fleet)
    assert all(one == (0, 0, 0) for one in again.values()), again


def test_exports_follow_the_addresses(fleet: Fleet) -> None:
    old = fleet.ssh("pair-w0", "hostname -I").split()[0]
    fleet.run("tpu-fleet", "cloud", "preempt", "pair")
    fleet.play("tpu.fleet.provision")
    configure(fleet)
    new = fleet.ssh("pair-w0", "hostname -I").split()[0]
    exported = fleet.ssh("files", "sudo exportfs -s")
    assert new != old
    assert f"{new}(" in exported
    assert f"{old}(" not in exported
    assert fleet.ssh("pair-w0", "cat /mnt/team/note").strip() == "from alice"


def test_a_folder_on_a_disk_is_exported_only_with_the_disk(fleet: Fleet) -> None:
    fleet.ssh(
        "files",
        "sudo sh -c 'truncate -s 64M /srv/disk.img; mkfs.ext4 -q /srv/disk.img; mkdir -p /srv/disk;"
        ' echo "/srv/disk.img /srv/disk ext4 loop,nofail 0 0" >> /etc/fstab;'
        " systemctl daemon-reload'",
    )
    declare(fleet, TEAM, SAFE, DATA)
    assert "where no disk is mounted" in share_in_vain(fleet, "--limit", "files")
    fleet.ssh("files", "test ! -e /srv/disk/data")
    fleet.ssh("files", "sudo mount /srv/disk")
    share(fleet)
    fleet.ssh("pair-w0", "sudo -u alice touch /mnt/data/on-disk")
    assert fleet.ssh("files", "ls /mnt/data /srv/disk/data").split().count("on-disk") == 2

    # Without the disk nobody may write into the folder below it; the other shares are there.
    fleet.ssh("pair-w1", "sudo systemctl stop mnt-data.mount")
    fleet.ssh(
        "files",
        "sudo sh -ec 'systemctl stop nfs-server mnt-data.mount srv-disk.mount;"
        " mkdir -m 1777 /srv/disk/data; mv /srv/disk.img /srv/away.img;"
        " systemctl start nfs-server'",
    )
    wait_until(
        "the other share is served",
        lambda: "from alice" in fleet.ssh("pair-w1", "cat /mnt/team/note; true"),
        60,
    )
    fleet.ssh("pair-w1", "! sudo -u alice timeout 30 touch /mnt/data/below")
    fleet.ssh(
        "files",
        "sudo sh -ec 'test ! -e /srv/disk/data/below; rmdir /srv/disk/data;"
        " mv /srv/away.img /srv/disk.img'",
    )
    reboot(fleet, "files")()
    assert "on-disk" in fleet.ssh("files", "ls /mnt/data")
    wait_until(
        "the client sees it",
        lambda: "on-disk" in fleet.ssh("pair-w0", "ls /mnt/data; true"),
        60,
    )


def test_what_is_not_declared_any_more_is_gone_and_the_files_stay(fleet: Fleet) -> None:
    declare(fleet)
    share(fleet)
    again = share(fleet)
    assert all(one == (0, 0, 0) for one in again.values()), again
    for host in CLIENTS:
        fleet.ssh(host, "! grep -q /mnt/team /proc/mounts; ! ls /etc/systemd/system/mnt-*")
    assert fleet.ssh("files", "sudo exportfs -s").strip() == ""
    assert fleet.ssh("files", "cat /mnt/team/note").strip() == "from alice"
    fleet.ssh(
        "files",
        "! systemctl is-enabled --quiet nfs-server; test ! -e /etc/exports.d/tpu-fleet.exports",
    )


def test_a_host_without_nfs_in_its_kernel_is_named_or_skipped(fleet: Fleet) -> None:
    declare(fleet, {**TEAM, "slices": ["other"]})
    assert "local-cloud-kernel: own" in share_in_vain(fleet, "--limit", "other")
    declare(fleet, {**TEAM, "slices": ["other"]}, fleet_share_when_unsupported="skip")
    share(fleet, "--limit", "other")
    assert "cannot mount" in fleet.ssh("other", "sudo cat /var/lib/tpu-fleet/state.json")
