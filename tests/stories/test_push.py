"""Roles that are pushed only where there is a reason: what their owner sees, and what must be seen.

One worker alone and two of a slice, for all of it in turn.
`.venv/bin/pytest tests/stories/test_push.py`
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import NOTHING, Fleet, changes, wait_until

SOLO, PAIR = "baker", ("twin-w0", "twin-w1")
ALL = [SOLO, *PAIR]
FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_apply": "push",
    "fleet_slices": [
        {"name": SOLO, "accelerator_type": "v4-8", "zone": "us-central2-b"},
        {"name": "twin", "accelerator_type": "v4-16", "zone": "us-central2-b"},
    ],
    "host_base_packages": ["sudo", "tzdata", "python3-venv"],
    "user_accounts_users": [
        {"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]},
    ],
    "python_env_venvs": [
        {"name": "tools", "path": "/opt/venvs/tools", "python": "3.11", "packages": ["idna"]}
    ],
    "code_checkout_trees": [
        {"name": "digits", "owner": "root", "dest": "/srv/digits", "folder": "../examples/jax"}
    ],
    "env_secrets_sets": [
        {"name": "keys", "owner": "alice", "files": [{"path": "~/.lab/key", "content": "letters"}]}
    ],
}
# Other values for some roles, and for none of the others.
ALICE = {**FLEET["user_accounts_users"][0], "shell": "/bin/sh"}
OTHER_SHELL = {**FLEET, "user_accounts_users": [ALICE]}
STILL = "as declared, nothing to do: "
UNCHANGED = (0, 0, 0)


@pytest.fixture(scope="module")
def fleet(_cloud: Fleet) -> Iterator[Fleet]:
    """The machines, as they are declared."""
    with _cloud.holding(FLEET) as fleet:
        yield fleet


def root(fleet: Fleet, host: str, script: str) -> str:
    return fleet.ssh(host, f"sudo sh -c '{script}'")


def still(output: str) -> list[str]:
    """Return the machines that had nothing to do."""
    lines = [line for line in output.splitlines() if line.startswith(STILL)]
    return lines[0].removeprefix(STILL).split(", ") if lines else []


def test_the_second_time_no_role_runs(fleet: Fleet) -> None:
    assert all(changes(fleet.first_site)[host][0] > 10 for host in ALL)
    told = fleet.play("site.yml")
    assert still(told) == ALL
    assert changes(told) == dict.fromkeys(("localhost", *ALL), UNCHANGED)
    assert "tpu.fleet.host_base" not in told


UNIT = "/etc/systemd/system/tpu-fleet-disk-guard.service"
BROKEN = {
    "userdel -f alice": "/etc/passwd was changed",
    f"sed -i 1i#altered {UNIT}": f"{UNIT} was changed",
    "systemctl disable --now tpu-fleet-disk-guard.timer": "disk-guard.timer",
    # Nobody looks into the home of somebody who is not there.
    "chmod 644 /home/alice/.lab/key": "/home/alice/.lab/key is gone",
    "rm /srv/digits": "/srv/digits was changed",
    "rm -r /opt/venvs/.tools-*/lib/python3*/site-packages/idna-*": "packages in /opt/venvs/.tools",
}


def test_what_was_altered_behind_our_back_is_mended(fleet: Fleet) -> None:
    for break_it in BROKEN:
        root(fleet, SOLO, break_it)
    # Workers of a slice agree on packages: one alone could not.
    root(fleet, PAIR[1], "rm /opt/venvs/tools")
    told = fleet.play("tpu.fleet.configure", "-v", "-e", "python_env_rebuild=true")
    assert still(told) == []
    assert [words for words in BROKEN.values() if words not in told] == []
    assert changes(told)[PAIR[0]] == UNCHANGED
    assert changes(told)[PAIR[1]][0] >= 1
    timer = "systemctl is-active tpu-fleet-disk-guard.timer"
    look = f"id -u alice; sudo stat -c %a /home/alice/.lab/key; {timer}; ls /srv/digits/train.py"
    mended = ["2001", "600", "active", "/srv/digits/train.py"]
    assert fleet.ssh(SOLO, look).split() == mended
    assert "altered" not in fleet.ssh(SOLO, f"cat {UNIT}")
    for host in (SOLO, PAIR[1]):
        fleet.ssh(host, "/opt/venvs/tools/bin/python -c 'import idna'")
    # With another value of what roles are given, there is again something to do.
    told = fleet.play("tpu.fleet.configure", "--limit", f"{SOLO},localhost")
    assert "to do: [baker] python_env: it is given other values" in told
    assert still(fleet.play("tpu.fleet.configure", "--limit", f"{SOLO},localhost")) == [SOLO]


def test_only_roles_with_a_reason_are_pushed(fleet: Fleet) -> None:
    # Nothing is declared for it, and nothing ever was.
    nothing = fleet.ssh(SOLO, "sudo cat /var/lib/tpu-fleet/state.json")
    assert '"user_accounts"' in nothing
    assert '"nfs_share"' not in nothing
    alone = ("tpu.fleet.configure", "--limit", f"{SOLO},localhost")
    told = fleet.play(*alone, "-e", "user_shell_theme=agnoster")
    assert "TASK [tpu.fleet.user_shell : " in told
    assert "TASK [tpu.fleet.user_accounts : " not in told
    assert still(fleet.play(*alone)) == []
    assert still(fleet.play(*alone)) == [SOLO]


def test_what_failed_is_tried_again(fleet: Fleet) -> None:
    alone = ("tpu.fleet.configure", "--limit", f"{SOLO},localhost")
    packages = [*FLEET["host_base_packages"], "there-is-no-such-package"]
    fleet.declare({**FLEET, "host_base_packages": packages})
    assert changes(fleet.play(*alone, ok=False))[SOLO][2] == 1
    # Nothing is known of it, though the file is again what it was.
    fleet.declare(FLEET)
    assert still(fleet.play(*alone)) == []
    assert still(fleet.play(*alone)) == [SOLO]


def test_whoever_is_killed_in_the_middle_leaves_nothing_that_seems_done(fleet: Fleet) -> None:
    alone = ("tpu.fleet.configure", "--limit", f"{SOLO},localhost")
    fleet.declare(OTHER_SHELL)
    push = fleet.start("ansible-playbook", *alone)
    assert push.stdout is not None
    for line in push.stdout:
        if "tpu.fleet.user_accounts" in line:
            break
    push.kill()
    push.wait(30)
    # What it had begun on the host ends by itself.
    time.sleep(10)
    fleet.declare(FLEET)
    told = fleet.play(*alone)
    assert still(told) == []
    assert "was interrupted" in told
    assert still(fleet.play(*alone)) == [SOLO]


def test_a_reboot_is_a_reason(fleet: Fleet) -> None:
    boot = fleet.ssh(SOLO, "cat /proc/sys/kernel/random/boot_id")
    fleet.run("tpu-fleet", "cloud", "reboot", SOLO)

    def is_back() -> bool:
        return boot not in ("", fleet.ssh(SOLO, "cat /proc/sys/kernel/random/boot_id"))

    wait_until("it is back", is_back, 120)
    told = fleet.play("site.yml", "--limit", f"{SOLO},localhost")
    assert "to do: [baker] the host was started anew" in told
    assert changes(told)[SOLO][1:] == (0, 0)


def test_hosts_that_apply_themselves_know_what_was_pushed_and_the_other_way_round(
    fleet: Fleet,
) -> None:
    alone = ("tpu.fleet.configure", "--limit", f"{SOLO},localhost")
    timer = "systemctl is-enabled tpu-fleet-apply.timer || true"
    fleet.declare({**FLEET, "fleet_apply": "host", "fleet_apply_every": "1h"})
    assert still(fleet.play(*alone)) == [SOLO]
    assert fleet.ssh(SOLO, timer) == "enabled\n"
    fleet.declare(FLEET)
    assert still(fleet.play(*alone)) == [SOLO]
    assert fleet.ssh(SOLO, timer) == "enabled\n"
    # What is pushed now, the timer would undo.
    fleet.declare(OTHER_SHELL)
    assert still(fleet.play(*alone)) == []
    assert fleet.ssh(SOLO, timer) != "enabled\n"
    assert root(fleet, SOLO, "cat /var/lib/tpu-fleet/apply/wishes.json") == "[]"
