"""What is really broken on real machines is named with its remedy, and repaired where it is safe.

In CI tests/machines/e2e/test_2_doctor.py breaks five things of these, and
tests/unit/plugins/module_utils/_doctor decides over all.

One story alone: `.venv/bin/pytest tests/machines/stories/test_doctor.py -k broken`
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from typing import Any

import pytest
from fleet import NOTHING, Fleet, wait_until

ZONE = "us-central2-b"
SOLO = {"name": "solo", "accelerator_type": "v4-8", "zone": ZONE}
PAIR = {"name": "pair", "accelerator_type": "v4-16", "zone": ZONE}
RUN = {"name": "idle", "slices": ["solo"], "user": "ubuntu", "command": "sleep 1000"}
GRANT = [{"zone": ZONE, "generation": "v4", "tier": "on_demand", "chips": 16}]
# No chip is here: a folder that looks like the PCI bus of a v4 host stands for it.
BUS = "/srv/pci"

Rows = dict[tuple[str, str, str], dict[str, Any]]


def declare(fleet: Fleet, *slices: dict[str, Any], **more: Any) -> None:
    wanted = {"fleet_allocations": GRANT, "fleet_slices": list(slices)}
    fleet.declare({**NOTHING, **wanted, "doctor_pci_devices": BUS, **more})


def doctor(fleet: Fleet, code: int, *words: str) -> tuple[Rows, list[dict[str, Any]]]:
    """Run the doctor; return its rows that are not well, and what it repaired."""
    report = fleet.report("tpu-fleet", "doctor", "--json", *words, codes=[code], limit=300)
    assert report["exit_code"] == code
    bad = [row for row in report["rows"] if row["status"] in ("warn", "fail")]
    assert all(row["remedy"] for row in bad)
    return {(row["host"], row["check"], row["subject"]): row for row in bad}, report["fixed"]


@pytest.fixture
def solo(fleet: Fleet) -> Fleet:
    declare(fleet, SOLO)
    fleet.play("tpu.fleet.provision")
    return fleet


BROKEN = r"""
mkdir -p /srv/pci/0000:00:04.0
cd /srv/pci/0000:00:04.0; echo 0x1ae0 > vendor; echo 0x005e > device; echo 0x088000 > class
for n in 5 6 7; do cp -r . /srv/pci/0000:00:0$n.0; done

useradd --create-home carol
mknod -m 666 /dev/accel0 c 1 7
install -o carol -m 644 /dev/null /tmp/libtpu_lockfile

mkdir -p /tmp/half/DEBIAN /opt/venvs /var/lib/tpu-fleet/venvs
cat > /tmp/half/DEBIAN/control <<END
Package: half
Version: 1
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: A package that cannot be configured at first
END
printf "#!/bin/sh\ntest -e /run/may\n" > /tmp/half/DEBIAN/postinst
chmod 755 /tmp/half/DEBIAN/postinst
dpkg-deb --build /tmp/half /tmp/half.deb
dpkg --install /tmp/half.deb || touch /run/may

echo LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4 >> /etc/environment
mkdir -p /mnt/small /mnt/share /mnt/absent /srv/data
mount -t tmpfs -o size=1m small /mnt/small
head -c 2M /dev/zero > /mnt/small/fill || true
echo "/srv/data /mnt/absent none bind 0 0" >> /etc/fstab

printf "# tpu.fleet\n[Mount]\nWhat=10.9.9.9:/export\nWhere=/mnt/share\nType=nfs4\n" \
  > /etc/systemd/system/mnt-share.mount
printf "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/test -e /run/may\n" \
  > /etc/systemd/system/tpu-fleet-broken.service
systemctl daemon-reload
rm -f /run/may; systemctl start tpu-fleet-broken || touch /run/may
"""
# A mount whose server never answers: the kernel asks a pipe without a reader.
HANGING = """
import ctypes, os, time
if os.fork():
    os._exit(0)
os.setsid()
reader, writer = os.pipe()
options = f"fd={writer},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
ctypes.CDLL(None).mount(b"10.9.9.9:/export", b"/mnt/share", b"autofs", 0, options.encode())
# Whoever began this does not wait for it.
nothing = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(nothing, number)
time.sleep(600)
"""
# Stand-ins for venvs whose frameworks see what chips there are, or cannot be imported.
VENV = r"""
import json, pathlib, sys, venv
name, source, version = sys.argv[1:]
path = pathlib.Path("/opt/venvs") / name
venv.create(path, with_pip=False, symlinks=True)
(site,) = path.glob("lib/python3*/site-packages")
(site / "jax.py").write_text(source)
info = site / f"jax-{version}.dist-info"
info.mkdir()
(info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: jax\nVersion: {version}\n")
record = {"name": name, "path": str(path), "packages": {"jax": "0.10.2"}, "python_version": ""}
folder = pathlib.Path("/var/lib/tpu-fleet/venvs")
folder.mkdir(parents=True, exist_ok=True)
(folder / f"{name}.json").write_text(json.dumps(record))
"""
CODE = """
mkdir -p /var/lib/tpu-fleet/code
echo '{{"name": "digits", "version": "{version}"}}' > /var/lib/tpu-fleet/code/digits.json
"""
OTHER_VERSION = """
cd /opt/venvs/jax/lib/python3*/site-packages
sed -i s/0.10.2/0.9.0/ jax-0.10.2.dist-info/METADATA jax.py
"""
SEES = """
__version__ = "0.10.2"
class Device: platform = "tpu"
def local_devices(): return [Device()] * 3
"""


def root(fleet: Fleet, host: str, text: str, *words: str, program: str = "bash -eu -s") -> None:
    """Run a script as root of a machine."""
    ssh = ("ssh", "-F", str(fleet.ssh_config), "-o", "LogLevel=ERROR", host)
    done = subprocess.run(
        [*ssh, f"sudo {program} {shlex.join(words)}"],
        input=text,
        env=fleet.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def make_venv(fleet: Fleet, host: str, name: str, source: str, version: str = "0.10.2") -> None:
    root(fleet, host, VENV, name, source, version, program="python3 -")


HOLD = "import time; chip = open('/dev/accel0'); time.sleep(600)"
SESSION = f'runuser -u carol -- tmux -L lab new-session -d -s sweep "python3 -c \\"{HOLD}\\""\n'
# An agent that has died and that systemd does not bring back.
DEAD_AGENT = r"""
mkdir -p /run/systemd/system/tpu-fleet-run@idle.service.d
printf "[Service]\nRestart=no\n" > /run/systemd/system/tpu-fleet-run@idle.service.d/no.conf
systemctl daemon-reload
systemctl kill --signal=KILL --kill-whom=main tpu-fleet-run@idle
"""
REPAIRED = r"""
rm -f /dev/accel0
runuser -u carol -- tmux -L lab kill-server
umount -l /mnt/small /mnt/share
rm -rf /etc/systemd/system/mnt-share.mount /opt/venvs/bad /var/lib/tpu-fleet/venvs/bad.json
sed -i /LD_PRELOAD/d /etc/environment
systemctl stop tpu-fleet-run@idle
"""


@pytest.mark.night
def test_what_is_broken_is_named_and_repaired_as_far_as_that_is_safe(solo: Fleet) -> None:
    # A run brings tmux; nothing else was ever applied to this machine.
    declare(solo, SOLO, fleet_runs=[RUN])
    solo.play("tpu.fleet.train")
    wait_until("the run", lambda: solo.status("solo", "idle").get("state") == "running", 60)
    root(solo, "solo", BROKEN)
    root(solo, "solo", HANGING, program="python3 -")
    make_venv(solo, "solo", "good", SEES)
    make_venv(solo, "solo", "bad", "raise ImportError('libfoo.so.1: cannot open')", "0.4.1")
    root(solo, "solo", SESSION + DEAD_AGENT)

    rows, _fixed = doctor(solo, 2)
    says = {f"{check} {what}".strip(): row["says"] for (_host, check, what), row in rows.items()}
    (holder,) = (text for key, text in says.items() if key.startswith("holders process "))
    assert re.match(r"/dev/accel0 is held by process \d+ of carol \(python3 -c import", holder)
    assert holder.endswith("in tmux session sweep")
    for key, words in {
        "disk /mnt/small": "100% full",
        "apt": "dpkg was interrupted in half",
        "ld_preload /etc/environment": "libtcmalloc.so.4, which does not exist",
        "mounts /mnt/share": "10.9.9.9:/export hangs",
        "mounts /mnt/absent": "is declared and not mounted",
        "units tpu-fleet-broken.service": "has failed (exit-code)",
        "imports bad": "libfoo.so.1: cannot open",
        "venvs bad": "jax 0.4.1 instead of 0.10.2",
        "runs idle": "has no running agent",
    }.items():
        assert words in says.get(key, ""), (key, says)
    # Somebody holds the chip: the lock file is theirs.
    assert "lock_file" not in says

    rows, fixed = doctor(solo, 2, "--fix")
    assert {step["check"]: step["did"] for step in fixed} == {
        "apt": "ran dpkg --configure -a",
        "mounts": "mounted /mnt/absent",
        "units": "restarted tpu-fleet-broken.service",
        "runs": "started tpu-fleet-run@idle.service",
    }
    left = {check: row["says"] for (_host, check, _what), row in rows.items()}
    assert not left.keys() & {"apt", "units"}, left
    assert left.keys() >= {"holders", "disk", "ld_preload", "mounts"}
    # The agent is there again, and waits for the chip.
    assert "has no running agent" not in left.get("runs", "")
    assert "sleep" in solo.ssh("solo", "pgrep -u carol -a python3"), "the holder was disturbed"

    root(solo, "solo", REPAIRED)
    rows, fixed = doctor(solo, 2, "--fix")
    assert [step["did"] for step in fixed] == ["removed /tmp/libtpu_lockfile"]
    seen = {check: row["says"] for (_host, check, _what), row in rows.items()}
    # Four chips are on the bus, and no device: no driver. The stand-in for JAX sees three.
    assert "no driver" in seen["chips"]
    assert "sees 3 of 4 chips" in seen["chips_seen"]
    assert "was stopped by hand" in seen["runs"]

    before = solo.status("solo", "idle")["attempt"]
    root(solo, "solo", "rm -r /srv/pci; systemctl start tpu-fleet-run@idle")

    def runs() -> bool:
        now = solo.status("solo", "idle")
        return now.get("state") == "running" and now["attempt"] > before

    wait_until("the run", runs, 60)
    rows, _fixed = doctor(solo, 1)
    # Only what trains was applied to this machine.
    assert {key[1]: row["says"] for key, row in rows.items()} == {
        "ready": "set up only partly: the ready marker is missing"
    }


# In CI tests/unit/plugins/module_utils/_doctor has workers that differ, are away or have a wrong
# clock.
@pytest.mark.night
def test_workers_that_differ_or_are_away(fleet: Fleet) -> None:
    declare(fleet, PAIR)
    fleet.play("tpu.fleet.provision")
    for host in ("pair-w0", "pair-w1"):
        make_venv(fleet, host, "jax", "__version__ = '0.10.2'")
        root(fleet, host, CODE.format(version="aaaa" if host == "pair-w0" else "bbbb"))
    root(fleet, "pair-w1", OTHER_VERSION)
    rows, _fixed = doctor(fleet, 2)
    assert "venv jax on pair-w1 differs: jax 0.9.0" in rows["pair", "same_venvs", "jax"]["says"]
    assert "code digits on pair-w1 differs: bbbb" in rows["pair", "same_code", "digits"]["says"]
    remedy = "tpu-fleet apply --limit tpu_slice_pair --only code"
    assert remedy in rows["pair", "same_code", "digits"]["remedy"]

    # Only something to look at, on the one that is asked for.
    root(fleet, "pair-w0", "echo JAX_PLATFORMS=cpu >> /etc/environment")
    rows, _fixed = doctor(fleet, 1, "--limit", "pair-w0")
    assert {key[:2] for key in rows} == {("pair-w0", "environment")}

    # One worker away: it is a row, and the other one is looked at all the same.
    root(fleet, "pair-w1", "systemctl stop ssh.socket ssh.service || systemctl stop ssh")
    past = str(time.time() - 3600)
    declare(fleet, PAIR, doctor_now=past)
    rows, _fixed = doctor(fleet, 2)
    assert "no sshd listens there" in rows["pair-w1", "ssh", ""]["says"]
    assert "pair-w1 of 2 workers cannot" in rows["pair", "all_workers", ""]["says"]
    assert re.search(r"the clock is 3[0-9]{3} s ahead", rows["pair-w0", "clock", ""]["says"])


# In CI tests/unit/plugins/module_utils/_doctor/test_controller.py has an API that refuses.
@pytest.mark.night
def test_the_project_is_looked_at_when_there_is_no_inventory(fleet: Fleet) -> None:
    declare(fleet)
    fleet.run("tpu-fleet", "cloud", "fault", "add", "api_disabled")
    rows, _fixed = doctor(fleet, 2)
    row = rows["controller", "api", ""]
    assert "it is disabled" in row["says"]
    assert "gcloud services enable tpu.googleapis.com" in row["remedy"]
