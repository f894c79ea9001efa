"""What is broken on a machine of the fleet is named, and repaired where that is safe.

In the stage `mistakes` more is broken, on a machine of its own, which has chips that a process
holds: tests/machines/stories/test_doctor.py.
"""

from __future__ import annotations

import shlex

from fleet import Fleet, wait_until

# A failed unit, a mount that is declared, a full disk, a library that does not exist, and an agent
# that has died and that systemd does not bring back.
BROKEN = r"""
printf "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/test -e /run/may\n" \
  > /etc/systemd/system/tpu-fleet-broken.service
mkdir -p /mnt/absent /mnt/small /srv/data
echo "/srv/data /mnt/absent none bind 0 0" >> /etc/fstab
mount -t tmpfs -o size=1m small /mnt/small
head -c 2M /dev/zero > /mnt/small/fill || true
echo LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4 >> /etc/environment
mkdir -p /run/systemd/system/tpu-fleet-run@alone.service.d
printf "[Service]\nRestart=no\n" > /run/systemd/system/tpu-fleet-run@alone.service.d/no.conf
systemctl daemon-reload
systemctl start tpu-fleet-broken || touch /run/may
systemctl kill --signal=KILL --kill-whom=main tpu-fleet-run@alone
"""
REPAIRED = r"""
umount /mnt/small /mnt/absent
sed -i "\|/mnt/absent|d" /etc/fstab
sed -i /LD_PRELOAD/d /etc/environment
systemctl stop tpu-fleet-broken
rm -r /etc/systemd/system/tpu-fleet-broken.service \
  /run/systemd/system/tpu-fleet-run@alone.service.d
systemctl daemon-reload
"""


def root(fleet: Fleet, script: str) -> None:
    fleet.ssh("solo", f"sudo bash -eu -c {shlex.quote(script)}")


def test_the_doctor_repairs_what_is_safe_and_names_the_rest(fleet: Fleet) -> None:
    before = fleet.status("solo", "alone")
    root(fleet, BROKEN)
    words = ("tpu-fleet", "doctor", "--fix", "--json", "--limit", "solo")
    report = fleet.report(*words, codes=[2], limit=300)
    assert {step["check"]: step["did"] for step in report["fixed"]} == {
        "mounts": "mounted /mnt/absent",
        "units": "restarted tpu-fleet-broken.service",
        "runs": "started tpu-fleet-run@alone.service",
    }
    bad = [row for row in report["rows"] if row["status"] in ("warn", "fail")]
    assert all(row["remedy"] for row in bad)
    says = {f"{row['check']} {row['subject']}": row["says"] for row in bad}
    assert "100% full" in says["disk /mnt/small"], says
    assert "libtcmalloc.so.4, which does not exist" in says["ld_preload /etc/environment"], says
    assert not {row["check"] for row in bad} & {"mounts", "units"}, says
    assert "has no running agent" not in says.get("runs alone", "")
    root(fleet, REPAIRED)

    # Another agent has taken up the program, which has not noticed.
    wait_until(
        "another agent",
        lambda: fleet.status("solo", "alone").get("agent_pid", 0) not in (0, before["agent_pid"]),
        60,
    )
    now = fleet.status("solo", "alone")
    kept = ("state", "pid", "attempt")
    assert [now[name] for name in kept] == [before[name] for name in kept]
