"""The playbooks where no machine is needed to see what they do."""

from __future__ import annotations

import fcntl
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator import Emulator
from fleet import interrupt

Play = Callable[..., str]
Start = Callable[..., "subprocess.Popen[str]"]
SOLO = {"name": "solo", "accelerator_type": "v4-8", "zone": Emulator.zone}


def test_a_fleet_without_slices(play: Play) -> None:
    # Its first part is the playbook provision.
    play("ansible-playbook", "tpu.fleet.site", fleet={})


def test_a_folder_that_is_not_there_is_told_before_a_slice_costs_money(
    cloud: Emulator, play: Play, tmp_path: Path
) -> None:
    fleet = {
        "fleet_slices": [SOLO],
        "fleet_allocations": "unrestricted",
        "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
        "fleet_code": [{"name": "digits", "user": "alice", "local_path": "../code"}],
        "fleet_shells": [{"user": "alice", "dotfiles": {"local_path": str(tmp_path / "dots")}}],
    }
    for words in (["--check"], []):
        out = play("ansible-playbook", "tpu.fleet.provision", *words, fleet=fleet, ok=False)
        assert f"fleet_code[0].local_path = '../code': is not there ({tmp_path}/code)" in out
        assert "fleet_shells[0].dotfiles.local_path = " in out
    assert cloud.control("state", method="GET")["nodes"] == []


def test_check_mode_looks_first_and_ends_with_an_error_where_a_slice_cannot_be_had(
    cloud: Emulator, play: Play, tmp_path: Path
) -> None:
    words = ("ansible-playbook", "tpu.fleet.provision", "--check")
    fleet = {"fleet_slices": [SOLO], "fleet_allocations": "unrestricted"}
    play(*words, fleet=fleet)
    assert not list((tmp_path / "state").glob("key*"))
    wrong = {**SOLO, "runtime_version": "tpu-vm-pt-2.0"}
    out = play(*words, fleet={**fleet, "fleet_slices": [wrong]}, ok=False)
    assert 'runtime version "tpu-vm-pt-2.0" was not found' in out


def test_slices_that_are_there_are_shown_as_those_that_come(cloud: Emulator, play: Play) -> None:
    words = ("ansible-playbook", "tpu.fleet.provision", "-e", "fleet_connection_timeout=0s")
    fleet = {"fleet_slices": [SOLO], "fleet_allocations": "unrestricted"}
    cloud.populate(1, prefix="left", labels={"tpu-fleet": "managed"})
    first, again = (play(*words, fleet=fleet, ok=False) for _ in range(2))
    assert "create" in first
    assert "create" not in again
    for out in (first, again):
        assert " solo: ready: v4-8" in out
        assert "not declared, and left as it is" in out
        assert "No login to solo within" in out


def test_the_machines_of_others_are_left_alone(cloud: Emulator, play: Play) -> None:
    cloud.populate(1, prefix="theirs")
    cloud.populate(1, prefix="ours", labels={"tpu-fleet": "managed"})
    listed = json.loads(play("ansible-inventory", "--list", fleet={}))
    hosts = [host for group in listed.values() for host in group.get("hosts", [])]
    assert set(hosts) == {"ours-0"}


DECLARED = ("theirs-0", "ours-0", "ours-1")


def test_teardown_deletes_what_is_named_and_ours(
    cloud: Emulator, play: Play, tmp_path: Path
) -> None:
    cloud.populate(1, prefix="theirs")
    cloud.populate(2, prefix="ours", labels={"tpu-fleet": "managed"})
    fleet = {"fleet_slices": [{**SOLO, "name": name} for name in DECLARED]}
    words = ("ansible-playbook", "tpu.fleet.teardown")
    kept = {"name": "kept", "zone": cloud.zone, "size": "100GiB"}
    disks = [kept, {**kept, "name": "gone", "state": "absent"}]
    told = play(*words, "-e", "teardown=ours-0", fleet={**fleet, "fleet_disks": disks})
    assert "kept (100GiB) stays, with its data, and costs." in " ".join(told.split())
    assert "gone stays" not in told
    ssh_config = tmp_path / "state" / "ssh_config"
    assert "Host ours-1-w0" in ssh_config.read_text() or "Host ours-1" in ssh_config.read_text()
    assert "ours-0" not in ssh_config.read_text()
    assert "adopt: true" in play(*words, "-e", "teardown=all", fleet=fleet, ok=False)
    left = {node["node"] for node in cloud.control("state", method="GET")["nodes"]}
    assert left == {"theirs-0"}


# In CI the test above deletes what is named, and tests/machines/e2e has a teardown of nothing.
@pytest.mark.night
def test_teardown_deletes_nothing_that_is_not_named(cloud: Emulator, play: Play) -> None:
    cloud.populate(2, prefix="ours", labels={"tpu-fleet": "managed"})
    fleet = {"fleet_slices": [{**SOLO, "name": name} for name in DECLARED]}
    words = ("ansible-playbook", "tpu.fleet.teardown")
    assert "-e teardown=NAME" in play(*words, fleet=fleet, ok=False)
    assert "ours-7" in play(*words, "-e", "teardown=ours-7", fleet=fleet, ok=False)
    play(*words, "-e", "teardown=ours-0", "--check", fleet=fleet)
    assert len(cloud.control("state", method="GET")["nodes"]) == 2


ONE = """
all: {hosts: {here: {ansible_connection: local}}, children: {tpu: {hosts: {here: {}}}}}
"""


def test_a_limit_takes_the_code_as_it_is_now(play: Play, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print()\n")
    tree = {"name": "digits", "user": "root", "local_path": "../code"}
    play(
        "ansible-playbook", "tpu.fleet.configure", "--limit=here", "--tags=nothing",
        fleet={"fleet_code": [tree]}, hosts=ONE,
    )  # fmt: skip
    assert (tmp_path / "state" / "snapshots" / "digits.tar.gz").exists()


def test_check_mode_takes_the_code_as_it_is_now(play: Play, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    words = ("ansible-playbook", "tpu.fleet.configure", "--limit=here", "--tags=nothing", "--check")
    fleet = {"fleet_code": [{"name": "digits", "user": "root", "local_path": "../code"}]}
    digests = []
    for text in ("print()", "print(1)"):
        (tmp_path / "code" / "train.py").write_text(text)
        play(*words, fleet=fleet, hosts=ONE)
        packed = tmp_path / "state" / "snapshots" / "digits.json"
        digests.append(json.loads(packed.read_text())["digest"])
    assert len(set(digests)) == 2


# In CI tests/machines/e2e shows a diff of the whole site.
@pytest.mark.night
def test_a_diff_of_the_site_leaves_the_folders_of_people_out(play: Play) -> None:
    people = {"fleet_users": [{"name": "alice", "uid": 2001}]}
    words = ("--check", "--diff")
    assert "README.txt" in play("ansible-playbook", "tpu.fleet.onboarding", *words, fleet=people)
    assert "README.txt" not in play("ansible-playbook", "tpu.fleet.site", *words, fleet=people)


def test_a_tag_of_a_role_that_the_playbook_does_not_apply_is_refused(play: Play) -> None:
    words = ("ansible-playbook", "tpu.fleet.configure", "--limit=here")
    out = " ".join(
        play(*words, "--tags=code_checkout,training_run", fleet={}, hosts=ONE, ok=False).split()
    )
    assert "Nothing was changed. --tags names training_run, which this playbook does not" in out


def test_a_run_that_is_refused_does_not_show_its_environment(play: Play) -> None:
    run = {"name": "r", "slices": ["here"], "user": "root", "command": "x", "env": {"T": "hush"}}
    words = ("ansible-playbook", "tpu.fleet.train", "--limit=here", "-v")
    out = play(*words, fleet={"fleet_runs": [{**run, "stop_signal": "KILL"}]}, hosts=ONE, ok=False)
    assert "fleet_runs[0].stop_signal = 'KILL': is not a signal for a run." in out
    assert "hush" not in out


def kill(running: subprocess.Popen[str]) -> None:
    """End Ansible without a word to it."""
    running.kill()
    running.communicate(timeout=240)


@pytest.mark.parametrize(
    "end",
    # In CI tests/worlds/property/test_killed_processes.py kills what asks for slices.
    [
        pytest.param(interrupt, id="ctrl-c"),
        pytest.param(kill, id="killed", marks=pytest.mark.night),
    ],
)
def test_who_is_ended_while_it_waits_leaves_nothing_behind(
    cloud: Emulator, start: Start, tmp_path: Path, end: Callable[[Any], None]
) -> None:
    cloud.populate(1, prefix="there", labels={"tpu-fleet": "managed"})
    cloud.fault("stock_out")
    slices = [{**SOLO, "name": "there-0"}, {**SOLO, "name": "more"}]
    running = start("ansible-playbook", "tpu.fleet.provision", fleet={"fleet_slices": slices})

    def refused() -> bool:
        return any(fault["hits"] for fault in cloud.control("faults", method="GET")["faults"])

    def held() -> bool:
        with (tmp_path / "state" / "fleet.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            return False

    # To ask for the lock takes it for a moment, so the apply has to have it before.
    wait_until(refused)
    assert held()
    end(running)
    wait_until(lambda: not held())


def wait_until(look: Callable[[], bool], limit: float = 240) -> None:
    deadline = time.monotonic() + limit
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_task_can_judge_the_failure_of_an_action(play: Play, tmp_path: Path) -> None:
    """Ansible asks `until` and `failed_when` about results only: not about exceptions."""
    where = tmp_path / "no folder"
    where.write_text("")
    writes = {"tpu.fleet.controller_file": {"dest": f"{where}/file", "content": ""}}
    tasks = [
        {**writes, "register": "seen", "failed_when": "seen.changed"},
        {**writes, "register": "seen", "until": "seen is success", "retries": 1, "delay": 0},
    ]
    playbook = tmp_path / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "localhost", "tasks": tasks}]))
    out = play("ansible-playbook", str(playbook), fleet={}, ok=False)
    assert "FAILED - RETRYING" in out
    assert "attempts: 1" in out
    assert "cannot be written" in out
