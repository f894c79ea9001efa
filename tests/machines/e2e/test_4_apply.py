"""Machines that apply the roles to themselves: what their owner sees, and what goes wrong.

They are those of the stories before, which have set themselves up, and get another fleet file.
`.venv/bin/pytest tests/machines/e2e/test_4_apply.py`
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import story
from fleet import NOTHING, Fleet, changes, wait_until, what_changed_but_notes

# In CI tests/cloud/apply/test_session.py has a process for the machine and a role of two files
# (altered, checked, killed in the middle, a disk without room, secrets), test_sync.py beside it
# what sync changes, and test_1_main_job.py a sync and the second site.yml of this fleet's machines.
pytestmark = pytest.mark.night

SOLO, PAIR = "solo", ("pair-w0", "pair-w1")
ALL = [*PAIR, SOLO]
CANARY = "canary-of-hosts-that-apply-themselves"
FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_apply": "host",
    "fleet_slices": [
        {"name": SOLO, "accelerator_type": "v4-8", "zone": "us-central2-b"},
        {"name": "pair", "accelerator_type": "v4-16", "zone": "us-central2-b"},
    ],
    "fleet_base_packages": ["sudo", "tzdata"],
    "fleet_shell_packages": [],
    "fleet_users": [
        {"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]},
    ],
    "fleet_venvs": [
        {"name": "tools", "path": "/opt/venvs/tools", "python": "3.11", "packages": ["idna"]}
    ],
    "fleet_code": [
        {"name": "digits", "user": "root", "local_path": "../examples/jax"},
        {"name": "loop", "user": "root", "local_path": "../loop"},
    ],
    "fleet_secrets": [{"name": "keys", "user": "alice", "env": {"CANARY": "{{ my_own_canary }}"}}],
    "my_own_canary": CANARY,
    "fleet_runs": [
        {
            "name": "steady",
            "slices": [SOLO],
            "user": "alice",
            "venv": "tools",
            "code": "digits",
            "command": "sleep 100000",
        },
        {
            "name": "gang",
            "slices": ["pair"],
            "user": "alice",
            "code": "loop",
            "needs_tpu": False,
            "command": "python3 loop.py",
        },
        {
            "name": "beside",
            "slices": ["pair"],
            "user": "alice",
            "needs_tpu": False,
            "command": "sleep 100000",
        },
    ],
}
LOOP = """import time
print("code {version}", flush=True)
time.sleep(100000)
"""
STILL = "as declared, nothing to do: "


@pytest.fixture(scope="module")
def fleet(fleet: Fleet) -> Iterator[Fleet]:
    """The machines, which are as this fleet file declares."""
    edit(fleet, "1")
    fleet.declare(FLEET)
    fleet.first_site = fleet.play("site.yml")
    yield fleet
    fleet.declare(story.FLEET)


def edit(fleet: Fleet, version: str) -> None:
    """Write the code of the run over both workers."""
    (fleet.folder / "loop").mkdir(exist_ok=True)
    (fleet.folder / "loop" / "loop.py").write_text(LOOP.format(version=version))
    (fleet.folder / "loop" / "words.txt").write_text("".join(map(str, range(9999))))


def root(fleet: Fleet, host: str, script: str, ok: bool = True) -> str:
    return fleet.run(
        *("ssh", "-F", str(fleet.ssh_config), "-o", "LogLevel=ERROR", host, "sudo", "sh", "-c"),
        shlex.quote(script),
        ok=ok,
        limit=120,
    )


def flat(output: str) -> str:
    """Return it on one line, however it is wrapped."""
    return " ".join(output.split())


def still(output: str) -> list[str]:
    """Return the machines that had nothing to do."""
    line = re.search(rf"^{STILL}(.*)$", output, re.M)
    assert line, re.findall(r"^\S+ +: ok=.*$", output, re.M)
    return line[1].split(", ")


def recap(output: str, host: str) -> dict[str, int]:
    """Return the numbers of a machine in the table."""
    line = re.search(rf"^{host}\s+: (ok=.*)$", output, re.M)
    assert line, output
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line[1])}


def test_site_makes_them_what_they_are_to_be(fleet: Fleet) -> None:
    for host in ALL:
        told = recap(fleet.first_site, host)
        assert told["changed"] > 0
        assert told["failed"] == 0
        assert fleet.ssh(host, "id -u alice; /opt/venvs/tools/bin/python -c 'import idna'") == (
            "2001\n"
        )
    # The second worker took what the first had found out.
    locks = [fleet.ssh(host, "sudo cat /var/lib/tpu-fleet/venvs/tools.lock") for host in PAIR]
    assert locks[0] == locks[1]
    wait_until("it runs", lambda: fleet.status(SOLO, "steady").get("state") == "running", 60)


def test_the_second_time_they_say_so_at_once(fleet: Fleet) -> None:
    pid = fleet.status(SOLO, "steady")["pid"]
    since = {host: fleet.ssh(host, "sleep 3; date +%s; sleep 1").strip() for host in ALL}
    told = fleet.play("site.yml")
    assert still(told) == ALL
    assert changes(told) == dict.fromkeys(["localhost", *ALL], (0, 0, 0))
    assert len(re.findall("^PLAY \\[", told, re.M)) <= 6
    assert len(re.findall("^TASK \\[", told, re.M)) <= 13
    for host in ALL:
        journal = f"sudo journalctl -q -o cat --since @{since[host]}"
        out = fleet.ssh(
            host,
            f"sudo journalctl --sync; {journal} _COMM=sshd | grep -c '^Accepted publickey'; "
            f"{journal} _COMM=sudo | grep COMMAND= | grep -vc COMMAND=/usr/bin/journalctl",
        )
        # One connection and one command, which also names runs that do not run; and this look.
        assert out.split() == ["2", "1"], (host, out)
    assert fleet.status(SOLO, "steady")["pid"] == pid


def test_what_was_altered_behind_our_back_is_mended(fleet: Fleet) -> None:
    root(fleet, PAIR[1], "echo altered >> /etc/tpu-fleet/venvs.sh; userdel -f alice")
    root(fleet, SOLO, "systemctl disable --now tpu-fleet-disk-guard.timer")
    told = fleet.play("site.yml")
    assert still(told) == [PAIR[0]]
    assert recap(told, PAIR[1])["changed"] >= 1
    assert recap(told, SOLO)["changed"] >= 1
    assert fleet.ssh(PAIR[1], "id -u alice") == "2001\n"
    assert fleet.ssh(SOLO, "systemctl is-active tpu-fleet-disk-guard.timer") == "active\n"
    assert still(fleet.play("site.yml")) == ALL


def test_a_stop_and_a_start_by_tpu_fleet_change_no_machine(fleet: Fleet) -> None:
    fleet.run("tpu-fleet", "stop", "beside")
    assert still(fleet.play("site.yml")) == ALL
    assert {fleet.status(host, "beside")["state"] for host in PAIR} == {"stopped"}
    fleet.run("tpu-fleet", "start", "beside")
    assert still(fleet.play("site.yml")) == ALL
    # A stop behind the back of tpu-fleet is seen, and undone.
    root(fleet, PAIR[1], "systemctl stop tpu-fleet-run@beside.service")
    assert still(fleet.play("site.yml")) == [PAIR[0], SOLO]
    wait_until("it runs", lambda: fleet.status(PAIR[1], "beside")["state"] == "running", 60)


def test_one_changed_variable_runs_the_roles_that_have_to_do_with_it(fleet: Fleet) -> None:
    more = ("-e", json.dumps({"fleet_shell_theme": "agnoster"}), "-v")
    told = fleet.play("site.yml", *more)
    for host in ALL:
        begun = re.search(rf"applying: \[{host}\] (.*) \(", told)
        assert begun
        assert begun[1] == "user_shell"
    assert "applying" in fleet.play("site.yml", "-v")


def test_check_mode_shows_what_would_be_and_changes_nothing(fleet: Fleet) -> None:
    more = ("-e", json.dumps({"fleet_time_zone": "Europe/Berlin"}))
    told = fleet.play("site.yml", "--check", "--diff", *more)
    assert recap(told, SOLO)["changed"] >= 1
    assert "Europe/Berlin" in told
    assert "Berlin" not in fleet.ssh(SOLO, "readlink /etc/localtime || cat /etc/timezone")
    assert still(fleet.play("site.yml")) == ALL


def code_of(fleet: Fleet) -> list[str]:
    """Return the version of the code on each worker of the slice."""
    shown = [root(fleet, host, "grep code /opt/tpu-fleet/code/loop/loop.py") for host in PAIR]
    return [re.findall(r"code (\d+)", text)[0] for text in shown]


def said(fleet: Fleet, version: str) -> bool:
    """Return whether the run has begun with a version on both workers."""
    return all(f"code {version}" in fleet.log(host, "gang") for host in PAIR)


def test_an_edit_reaches_all_workers_however_it_is_applied(fleet: Fleet) -> None:
    wait_until("the run", lambda: said(fleet, "1"), 120)
    edit(fleet, "2")
    planned = fleet.report("tpu-fleet", "plan", "--json", codes=(2,))
    (run,) = planned["runs"]
    assert [run[key] for key in ("run", "slice", "does", "why")] == [
        *("gang", "pair", "restarted"),
        ["code"],
    ]
    assert {one["host"] for one in planned["machines"]} >= set(PAIR)
    assert (planned["slices"], planned["unknown"]) == ([], [])
    assert code_of(fleet) == ["1", "1"]
    # The code alone reaches all workers of the slice, and the run keeps its own.
    told = fleet.run("tpu-fleet", "apply", "--only", "code")
    assert "ansible-playbook tpu.fleet.configure --tags code_checkout" in told.splitlines()
    assert code_of(fleet) == ["2", "2"]
    assert "restarted" not in told
    # What was left undone is made up for, and an edit since then comes with it.
    edit(fleet, "3")
    told = fleet.run("tpu-fleet", "apply", "--only", "runs")
    assert re.search(r"^ +restarted gang \(pair\): code$", told, re.MULTILINE)
    assert re.search(rf"^machines +{len(ALL)} ready$", told, re.MULTILINE)
    assert code_of(fleet) == ["3", "3"]
    wait_until("the new code", lambda: said(fleet, "3"), 120)
    assert not said(fleet, "2")
    assert still(fleet.play("tpu.fleet.train")) == ALL


def test_sync_takes_an_edit_to_its_run_and_leaves_what_site_would(fleet: Fleet) -> None:
    # A part was applied alone before: what depends on it is still to be looked at.
    assert set(changes(fleet.play("site.yml")).values()) == {(0, 0, 0)}
    beside = [fleet.status(host, "beside")["pid"] for host in PAIR]
    attempt = fleet.status(PAIR[0], "gang")["attempt"]
    edit(fleet, "4")
    (told,) = fleet.report("tpu-fleet", "sync", "gang", "--json")["slices"]
    assert (told["slice"], told["workers"], told["files"]) == ("pair", 2, 1)
    # The other file, which is larger, did not travel.
    assert told["bytes"] < 2 * 500
    wait_until("the new code", lambda: said(fleet, "4"), 60)
    assert code_of(fleet) == ["4", "4"]
    assert [fleet.status(host, "gang")["attempt"] for host in PAIR] == [attempt + 1] * 2
    assert [fleet.status(host, "beside")["pid"] for host in PAIR] == beside
    events = "/var/log/tpu-fleet/runs/gang/events.jsonl"
    assert told["version"] in root(fleet, PAIR[0], f"grep code-changed {events} | tail -n 1")
    told = fleet.run("tpu-fleet", "sync", "gang")
    assert re.search(r"^pair: 2 workers, \w{8}, already there, attempt \d+ runs, ", told, re.M)
    # The slice on which the run is not has the tree too, and gets the version now.
    told = fleet.play("site.yml")
    assert still(told) == list(PAIR)
    assert changes(told).pop(SOLO)[1:] == (0, 0)
    assert {host: changes(told)[host] for host in ("localhost", *PAIR)} == dict.fromkeys(
        ("localhost", *PAIR), (0, 0, 0)
    )
    # Not even the roles find a difference.
    told = fleet.play("tpu.fleet.train", "--limit", PAIR[1], "-e", "fleet_apply_everything=true")
    assert what_changed_but_notes(told) == ""
    # Data sets and the queue are applied for the first time, with nothing declared, and note that.
    assert recap(told, PAIR[1])["changed"] == 2
    assert [fleet.status(host, "gang")["attempt"] for host in PAIR] == [attempt + 1] * 2


def test_sync_changes_no_worker_if_one_cannot_take_the_version(fleet: Fleet) -> None:
    edit(fleet, "5")
    root(fleet, PAIR[1], "echo mine >> /opt/tpu-fleet/code/loop/loop.py")
    told = flat(fleet.run("tpu-fleet", "sync", "gang", ok=False))
    assert "pair-w1: tree (loop, /opt/tpu-fleet/code/loop): " in told
    assert "has local changes: loop.py" in told
    assert "Nothing was changed." in told
    assert code_of(fleet) == ["4", "4"]
    edit(fleet, "4")
    root(fleet, PAIR[1], "sed -i '$ d' /opt/tpu-fleet/code/loop/loop.py")
    # That file was written by hand, so its worker may look at its roles again.
    told = fleet.play("site.yml")
    assert PAIR[0] in still(told), told
    assert changes(told)[PAIR[1]][1:] == (0, 0), told
    assert code_of(fleet) == ["4", "4"]


def test_tags_and_limits_are_kept(fleet: Fleet) -> None:
    told = fleet.play("tpu.fleet.configure", "--tags", "user_accounts", "--limit", PAIR[0])
    assert 0 < recap(told, PAIR[0])["ok"] < 12
    assert f"{PAIR[1]} " not in told
    assert "applying" not in fleet.play("tpu.fleet.configure", "--tags", "none")


TWO = [
    *FLEET["fleet_users"],
    {"name": "carol", "uid": 2103, "keys": ["{{ fleet_ssh_public_key }}"]},
]


def test_who_cannot_be_reached_or_fails_holds_up_nobody(fleet: Fleet) -> None:
    # Another account has the number there (2003 may be of an account that gcloud has created), and
    # for a while no login is possible here.
    root(fleet, PAIR[1], "useradd -u 2103 mallory")
    root(fleet, SOLO, "systemd-run -q --on-active=60 systemctl start ssh; systemctl stop ssh")
    more = ("-e", json.dumps({"fleet_users": TWO}))
    told = fleet.play("tpu.fleet.configure", *more, ok=False)
    assert recap(told, PAIR[0])["failed"] == 0
    assert fleet.ssh(PAIR[0], "id -u carol") == "2103\n"
    assert recap(told, PAIR[1])["failed"] == 1
    assert "mallory" in told
    assert changes(told)[PAIR[1]][2] == 1
    assert f"{SOLO} : unreachable" in re.sub(" +", " ", told)
    assert changes(told)[SOLO][1] == 1
    # site.yml waits for those that it cannot reach.
    root(fleet, PAIR[1], "userdel mallory")
    told = fleet.play("site.yml", *more)
    assert recap(told, SOLO)["changed"] >= 1
    assert fleet.ssh(PAIR[1], "id -u carol") == "2103\n"


def test_a_reboot_in_the_middle_is_made_good(fleet: Fleet) -> None:
    everything = ("-e", json.dumps({"fleet_users": TWO, "fleet_apply_everything": True}))
    only = ("--limit", f"localhost,{SOLO}")
    process = fleet.start("ansible-playbook", "site.yml", *only, *everything)
    busy = "test -e /var/lib/tpu-fleet/apply/work/play.json"

    def went() -> bool:
        # The machine may be gone before its sshd has said how it ended.
        try:
            told = root(fleet, SOLO, f"{busy} && echo went && systemctl reboot --force; true")
        except AssertionError as lost:
            return "\nwent" in str(lost)
        return "went" in told

    wait_until("it is at work", went, 120)
    told = process.communicate(timeout=600)[0]
    assert process.returncode == 0, told
    assert recap(told, SOLO)["failed"] == 0
    assert still(fleet.play("site.yml", "-e", json.dumps({"fleet_users": TWO}))) == ALL


def test_a_full_disk_is_said_and_nothing_is_begun(fleet: Fleet) -> None:
    store = "/var/lib/tpu-fleet/apply/files"
    root(fleet, SOLO, f"mount -t tmpfs -o size=8k,mode=700 tmpfs {store}")
    told = fleet.play("tpu.fleet.configure", ok=False)
    assert f"{store} has no room for" in told
    assert "journalctl --vacuum-size" in told
    root(fleet, SOLO, f"umount {store}")
    fleet.play("tpu.fleet.configure")


def test_a_machine_that_cannot_have_ansible_core_is_pushed_to(fleet: Fleet) -> None:
    root(fleet, SOLO, "rm -rf /opt/tpu-fleet/apply/ansible-* /opt/tpu-fleet/uv")
    nowhere = {"fleet_index_url": "http://127.0.0.1:9/simple", "fleet_build_tries": 1}
    words = ("tpu.fleet.configure", "--tags", "user_accounts", "--limit", SOLO)
    # Only auto may take another way than the one that is declared.
    told = fleet.play(*words, "-e", json.dumps(nowhere), ok=False)
    assert "ansible-core==" in told
    assert "cannot be installed" in told
    told = fleet.play(*words, "-e", json.dumps({**nowhere, "fleet_apply": "auto"}))
    assert re.search(rf"^push: \[{SOLO}\] Ansible applies the roles from here, because", told, re.M)
    assert changes(told)[SOLO][1:] == (0, 0)
    assert recap(fleet.play("tpu.fleet.configure"), SOLO)["failed"] == 0


def test_secrets_stay_where_they_belong(fleet: Fleet) -> None:
    found = root(
        fleet,
        PAIR[0],
        # Not as it is, for sudo writes down what it is asked to run.
        f"grep -rlE {CANARY.replace('-', '[-]', 1)} /var /opt /tmp /root; true",
    ).split()
    # What the machine was sent, for root alone.
    assert {str(Path(path).parent) for path in found} == {"/var/lib/tpu-fleet/apply/files"}
    modes = root(fleet, PAIR[0], "stat -c %a /var/lib/tpu-fleet/apply/files/*").split()
    assert set(modes) == {"600"}
