"""What happens to a machine while it is being set up, and how the next run ends what is begun.

One machine for all of them, in turn; each breaks something else, and each ends with a run that has
nothing left to do. `.venv/bin/pytest tests/machines/stories/test_machine_faults.py`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fleet import NOTHING, Fleet, changes, wait_until

# In CI the role's unit tests have what it reports.
pytestmark = pytest.mark.night

HOST = "anvil"
ALICE = {"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}
# A package whose installation is slow once: it is under way when the machine goes down.
SLOW = """set -eu
mkdir -p /srv/packages/slow/DEBIAN
cd /srv/packages
cat > slow/DEBIAN/control <<'C'
Package: slow
Version: 1
Architecture: all
Maintainer: a <a@example.org>
Description: slow
C
cat > slow/DEBIAN/postinst <<'P'
#!/bin/sh
test -e /srv/begun && exit 0
touch /srv/begun
sync
sleep 600
P
chmod 755 slow/DEBIAN/postinst
dpkg-deb --build slow slow_1_all.deb > /dev/null
{
  cat slow/DEBIAN/control
  echo Filename: ./slow_1_all.deb
  echo Size: $(stat -c %s slow_1_all.deb)
  echo SHA256: $(sha256sum slow_1_all.deb | cut -d' ' -f1)
} > Packages
echo 'deb [trusted=yes] file:/srv/packages ./' > /etc/apt/sources.list.d/slow.list
"""
LOCK = (
    "import fcntl, time; f = open('/var/lib/dpkg/lock-frontend', 'w'); "
    "fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(600)"
)
# Says 3.8 wherever it is asked; everything else of it is the machine's own Python.
OLD_PYTHON = """set -eu
mkdir -p /opt/old-python
cat > /opt/old-python/sitecustomize.py <<'PY'
import sys
class Old(tuple):
    major, minor, micro = 3, 8, 10
sys.version_info = Old((3, 8, 10, "final", 0))
sys.version = "3.8.10"
PY
cat > /opt/old-python/python <<'SH'
#!/bin/sh
if [ "$1" = --version ]; then echo Python 3.8.10; exit; fi
PYTHONPATH=/opt/old-python exec /usr/bin/python3 "$@"
SH
chmod 755 /opt/old-python/python
"""
# As on a full disk: no process can write a file where Ansible writes its own.
NO_ROOM = """
for folder in /tmp /var/tmp; do
  mount -t tmpfs -o size=4k,mode=1777 tmpfs $folder
  cat /dev/zero > $folder/fill || true
done
"""


@pytest.fixture(scope="module")
def machine(_cloud: Fleet) -> Iterator[Fleet]:
    """One machine that nothing was done to yet."""
    declare(_cloud)
    _cloud.play("tpu.fleet.provision")
    yield _cloud
    _cloud.declare(NOTHING)
    _cloud.run("curl", "-sf", "-X", "POST", f"http://127.0.0.1:{_cloud.port}/_cloud/reset")


def declare(fleet: Fleet, *packages: str, **more: Any) -> None:
    fleet.declare(
        {
            **NOTHING,
            # These are the faults of what roles do, without those of ansible-core on the machine.
            "fleet_apply": "push",
            "fleet_slices": [
                {"name": HOST, "accelerator_type": "v4-8", "zone": "us-central2-b"}
            ],
            "fleet_base_packages": ["sudo", "tzdata"],
            "fleet_packages": list(packages),
            "fleet_users": [ALICE],
            **more,
        }
    )  # fmt: skip


# What breaks here is the machine; the roles after the people's have faults of their own.
CONFIGURE = ("tpu.fleet.configure", "--tags", "host_base,user_accounts")


def configure(fleet: Fleet, ok: bool = True) -> str:
    """Configure; its messages on one line, however they are wrapped."""
    return " ".join(fleet.play(*CONFIGURE, ok=ok).split())


def root(fleet: Fleet, script: str, ok: bool = True) -> str:
    """Run a script on the machine as root."""
    shell = f"sudo bash <<'END'\nset -u\n{script}\nEND"
    return fleet.ssh(HOST, shell, ok=ok)


def all_done(fleet: Fleet, *packages: str) -> None:
    """Nothing half is left: what is declared is there, and another run changes nothing."""
    names = " ".join(packages)
    if names:
        states = root(fleet, f"dpkg-query --show --showformat='${{db:Status-Abbrev}}' {names}")
        assert states.split() == ["ii"] * len(packages)
    assert root(fleet, "dpkg --audit") == ""
    assert root(fleet, "id -u alice").strip() == "2001"
    ready, boot = root(
        fleet, "cat /var/lib/tpu-fleet/ready; cat /proc/sys/kernel/random/boot_id"
    ).split()
    assert ready == boot
    again = fleet.play(*CONFIGURE)
    assert changes(again)[HOST] == (0, 0, 0), again


def test_no_package_index_for_a_while(machine: Fleet) -> None:
    """First of all, while the machine knows no package at all."""
    declare(machine, "bc")
    away = "/etc/apt/apt.conf.d/00away"
    root(machine, f"echo 'Acquire::http::Proxy \"http://127.0.0.1:9\";' > {away}")
    told = configure(machine, ok=False)
    assert "package index or its server cannot be reached" in told
    assert "/etc/apt" in told
    assert root(machine, "id alice", ok=False), "the rest comes when the host is in order"
    # Back when the next run begins: one process of apt goes on believing what it read first.
    root(machine, f"rm {away}")
    told = configure(machine)
    assert "failed=0" in told
    all_done(machine, "bc")


def test_rebooted_in_the_middle_of_an_installation(machine: Fleet) -> None:
    root(machine, SLOW)
    root(machine, "rm -rf /var/lib/apt/lists/*; touch -d @86400 /var/lib/apt/lists")
    declare(machine, "slow", "tree")
    run = machine.start("ansible-playbook", *CONFIGURE)
    wait_until("slow's script", lambda: "yes" in begun(machine), 240)
    machine.run("tpu-fleet", "cloud", "reboot", HOST)
    told = run.communicate(timeout=240)[0]
    assert run.returncode != 0, told
    assert root(machine, "dpkg --audit"), "the reboot left something half installed"
    configure(machine)
    all_done(machine, "slow", "tree")


def begun(fleet: Fleet) -> str:
    return root(fleet, "test -e /srv/begun && echo yes || echo no")


def test_somebody_else_installs_packages(machine: Fleet) -> None:
    declare(machine, "tree", "lz4", fleet_first_boot_timeout="3s")
    root(machine, f'systemd-run --quiet --unit=holder /usr/bin/python3 -c "{LOCK}"')
    told = configure(machine, ok=False)
    pid = root(machine, "systemctl show --property=MainPID --value holder").strip()
    assert f"/var/lib/dpkg/lock-frontend is locked (process {pid}: /usr/bin/python3 -c" in told
    assert "fleet_first_boot_timeout" in told
    # With more patience it is over before the limit is.
    declare(machine, "tree", "lz4", fleet_first_boot_timeout="2m")
    root(machine, "systemd-run --quiet --on-active=8 systemctl stop holder")
    configure(machine)
    all_done(machine, "lz4")


def test_the_disk_is_full(machine: Fleet) -> None:
    declare(machine, "tree", "lz4", "pv")
    archives = "/var/cache/apt/archives"
    root(machine, f"mount -t tmpfs -o size=200k tmpfs {archives}")
    told = configure(machine, ok=False)
    assert f"The disk of this host is full: {archives} (0 MB free)" in told
    assert "Nothing was changed" in told
    # It fills up only while packages are being fetched.
    declare(machine, "tree", "lz4", "pv", "gdb", fleet_min_free=None)
    told = configure(machine, ok=False)
    assert "The packages could not be installed: the disk is full" in told
    root(machine, f"umount {archives}")
    # And with no room for the role's own record.
    root(
        machine,
        "cp -a /var/lib/tpu-fleet /srv/state\n"
        "mount -t tmpfs -o size=64k tmpfs /var/lib/tpu-fleet\n"
        "cp -a /srv/state/. /var/lib/tpu-fleet/\n"
        "cat /dev/zero > /var/lib/tpu-fleet/fill || true",
    )
    declare(machine, "tree", "lz4", "pv", fleet_min_free=None)
    told = configure(machine, ok=False)
    assert "No space left on device" in told
    assert "Make room" in told
    root(machine, "umount /var/lib/tpu-fleet")
    declare(machine, "tree", "lz4", "pv")
    configure(machine)
    all_done(machine, "pv")


def test_no_module_can_run_there(machine: Fleet) -> None:
    root(machine, OLD_PYTHON + NO_ROOM)
    settings = machine.inventory / "group_vars" / "tpu.yml"
    settings.write_text("ansible_python_interpreter: /opt/old-python/python\n")
    try:
        # To get in, neither is needed: what needs them says what is wrong.
        machine.play("tpu.fleet.provision", "-e", "fleet_connection_timeout=20s")
        told = configure(machine, ok=False)
        assert "The disk of this host is full: no space is left on /tmp and /var/tmp" in told
        assert "Traceback" not in told
        root(machine, "umount /tmp /var/tmp")
        told = configure(machine, ok=False)
    finally:
        settings.unlink()
    assert "has Python 3.8.10, and ansible-core" in told
    assert "runtime_version" in told
    assert "Traceback" not in told
    configure(machine)
    all_done(machine)
