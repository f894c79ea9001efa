"""Drills on machines of the local cloud, with a program that goes on and others that do not.

`.venv/bin/pytest tests/machines/drills`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import NOTHING, Fleet, interrupt, wait_until

ZONE, HOST, PAIR, UNIT = "us-central2-b", "anvil", "pair", "tpu-fleet-drill"
EVERY = 10
RUN: dict[str, Any] = {"slices": [HOST], "user": "alice", "code": "drills", "needs_tpu": False}
COUNT: dict[str, Any] = {
    **RUN,
    "name": "count",
    "command": "python3 counting.py",
    "checkpoint_dir": "/mnt/saved/count",
    # It is killed more often here than a run may fail within an hour.
    "retries": 20,
}
FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_disks": [
        {"name": "saved", "size": "10GiB", "slices": [HOST], "path": "/mnt/saved", "user": "alice"},
    ],
    "fleet_slices": [
        {"name": HOST, "accelerator_type": "v4-8", "zone": ZONE},
        {"name": PAIR, "accelerator_type": "v4-16", "zone": ZONE},
    ],
    "fleet_base_packages": ["sudo", "tzdata", "tmux"],
    "fleet_users": [
        {"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]},
    ],
    "fleet_code": [{"name": "drills", "user": "root", "local_path": "../tests/machines/drills"}],
    # Far less than a partition lasts.
    "fleet_run_lost_after": "10s",
    "fleet_runs": [
        COUNT,
        {**RUN, "name": "both", "slices": [PAIR], "command": "python3 counting.py"},
        {
            **RUN,
            "name": "forgets",
            "command": "python3 counting.py forget",
            "checkpoint_dir": "/mnt/saved/forgets",
        },
        {
            **RUN,
            "name": "breaks",
            "command": "python3 counting.py breaks",
            "checkpoint_dir": "/mnt/saved/breaks",
            "retries": 1,
        },
    ],
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("drills"), FLEET)
    fleet.up("--speed", "10")
    try:
        for book in ("disks", "site"):
            fleet.run("ansible-playbook", f"tpu.fleet.{book}", limit=3600)
        yield fleet
    finally:
        fleet.down()


def words(run: str, *drills: str, **variables: Any) -> tuple[str, ...]:
    """Return the arguments of a drill."""
    told = {"fleet_run": run, "fleet_drills": list(drills), "fleet_drill_confirm": run, **variables}
    return "tpu.fleet.drill", "-e", json.dumps(told)


def reports(fleet: Fleet) -> list[str]:
    """Return the names of the reports that there are."""
    return sorted(path.name for path in (fleet.folder / "state" / "drills").glob("*"))


def drill(fleet: Fleet, run: str, *drills: str, ok: bool, **variables: Any) -> list[dict[str, Any]]:
    """Do drills, all of which the report has; return its rows."""
    before = reports(fleet)
    told = fleet.run("ansible-playbook", *words(run, *drills, **variables), ok=ok, limit=3600)
    page, data = sorted(set(reports(fleet)) - set(before), reverse=True)
    folder = fleet.folder / "state" / "drills"
    rows: list[dict[str, Any]] = json.loads((folder / data).read_text())["drills"]
    assert [row["drill"] for row in rows] == list(drills), told
    text = (folder / page).read_text()
    for row in rows:
        assert f"| {row['drill']} | {row['verdict']} |" in text
    print(text)
    return rows


def root(fleet: Fleet, script: str, host: str = HOST) -> str:
    return fleet.ssh(host, f"sudo bash <<'END'\nset -u\n{script}\nEND").strip()


def free(fleet: Fleet) -> int:
    """Return the kilobytes that programs may still save."""
    return int(root(fleet, "df --output=avail /mnt/saved | tail -1"))


def nothing_is_left(fleet: Fleet) -> bool:
    """Return whether the machine is as if there had been no drill."""
    units = root(fleet, f"systemctl list-units --all --no-legend '{UNIT}*'")
    files = root(fleet, "find /mnt/saved /tmp /run -name '.tpu-fleet-drill*' 2>/dev/null")
    fillers = root(fleet, "pgrep -f posix_fallocat[e] || true")
    return (units, files, fillers) == ("", "", "") and free(fleet) > 8_000_000


def test_nothing_is_done_unless_it_is_meant(fleet: Fleet) -> None:
    wait_until("it runs", lambda: fleet.status(HOST, "count").get("state") == "running", 120)
    before = fleet.status(HOST, "count")
    for change, said in (
        ({"fleet_drill_confirm": "digits"}, 'fleet_drill_confirm: "digits" is not'),
        ({"fleet_run": "digits"}, "fleet_run: there is no run 'digits'"),
        ({"fleet_drills": ["flood"]}, "fleet_drills: there is no drill 'flood'"),
        ({"fleet_drill_duration": "1"}, "fleet_drill_duration: '1' is not"),
    ):
        told = fleet.play(*words("count", "kill", **change), ok=False)
        # YAML writes a quote within quotes twice.
        assert said in " ".join(told.split()).replace("''", "'"), told
    told = fleet.play(*words("count", "kill", "disk"), "--check")
    assert "kills the program on anvil with signal 9" in told
    after = fleet.status(HOST, "count")
    same = ("attempt", "pid", "agent_pid", "boot_id")
    assert [after[key] for key in same] == [before[key] for key in same]
    assert reports(fleet) == []


def test_a_program_that_begins_anew_loses_steps(fleet: Fleet) -> None:
    (row,) = drill(fleet, "forgets", "kill", ok=False)
    assert row["verdict"] == "lost steps"
    assert row["first_step"] == 1
    assert row["lost_steps"] == row["last_step"] > EVERY
    assert row["attempt_after"] == row["attempt_before"] + 1
    assert nothing_is_left(fleet)


def test_a_run_that_fails_for_good_is_not_back(fleet: Fleet) -> None:
    # Before anything reboots: what it has saved breaks it then as well.
    kill, agent = drill(fleet, "breaks", "kill", "agent", ok=False)
    assert (kill["verdict"], agent["verdict"]) == ("not back", "not done")
    assert "the run is failed" in kill["says"]
    told = fleet.play(*words("breaks", "kill"), ok=False)
    assert "fleet_run: breaks is failed on anvil" in " ".join(told.split())
    assert nothing_is_left(fleet)


def test_a_program_that_goes_on_survives_everything(fleet: Fleet) -> None:
    asked = ("kill", "agent", "reboot", "maintenance", "disk", "partition")
    addresses = fleet.cloud()[HOST]["workers"][0]
    rows = drill(fleet, "count", *asked, ok=True, fleet_drill_duration="30s")
    by_name = {row["drill"]: row for row in rows}
    alone = by_name.pop("partition")
    assert (alone["verdict"], "one worker" in alone["says"]) == ("skipped", True)
    assert {row["verdict"] for row in by_name.values()} == {"survived"}
    # It saves that often, and no fault costs more.
    assert all(0 <= row["lost_steps"] <= EVERY for row in by_name.values())
    agent = by_name.pop("agent")
    assert agent["attempt_after"] == agent["attempt_before"]
    assert agent["before"]["agent_pid"] != agent["after"]["agent_pid"]
    assert agent["before"]["pid"] == agent["after"]["pid"]
    # The others ended the program for sure, each in its own way.
    assert all(row["attempt_after"] > row["attempt_before"] for row in by_name.values())
    ends = {name: row["after"]["history"][-1] for name, row in by_name.items()}
    assert ends["kill"]["signal"] == 9
    assert ends["disk"]["exit_code"] == 1
    for name in ("reboot", "maintenance"):
        row = by_name[name]
        assert row["before"]["machine_boot_id"] != row["after"]["machine_boot_id"]
    assert fleet.cloud()[HOST]["workers"][0]["external_ip"] != addresses["external_ip"]
    # What Ansible sees by itself, an owner's ssh is told.
    fleet.play("tpu.fleet.ssh_config")
    assert nothing_is_left(fleet)


def test_the_disk_is_free_again_when_nobody_comes_back(fleet: Fleet) -> None:
    running = fleet.start("ansible-playbook", *words("count", "disk", fleet_drill_duration="40s"))
    try:
        wait_until("a full disk", lambda: free(fleet) < 1000, 240)
    finally:
        interrupt(running)
    wait_until("room, by itself", lambda: nothing_is_left(fleet), 120)
    wait_until("the run", lambda: fleet.status(HOST, "count").get("state") == "running", 120)


def test_workers_that_lose_each_other_go_on_together(fleet: Fleet) -> None:
    (row,) = drill(fleet, "both", "partition", ok=True, fleet_drill_duration="40s")
    assert row["verdict"] == "survived"
    assert row["attempt_after"] > row["attempt_before"]
    assert 0 <= row["lost_steps"] <= EVERY
    # They were cut off from each other indeed.
    causes = {entry["attempt"]: entry["cause"] for entry in row["after"]["history"]}
    assert causes[row["attempt_before"]] == "worker 1 is lost"
    other = fleet.status(f"{PAIR}-w1", "both")
    causes = {entry["attempt"]: entry["cause"] for entry in other["history"]}
    assert causes[row["attempt_before"]] == "lost the leader"
    assert "tpu_fleet_drill" not in root(fleet, "nft list tables", f"{PAIR}-w0")


def test_a_preempted_slice_goes_on_when_somebody_watches(fleet: Fleet) -> None:
    # Of the others it would be told that they are not back.
    fleet.declare({**FLEET, "fleet_runs": [COUNT]})
    watcher = fleet.start("tpu-fleet", "watch", "run", "--interval", "5")
    try:
        (row,) = drill(fleet, "count", "preempt", ok=True)
    finally:
        print(interrupt(watcher))
    assert row["verdict"] == "survived"
    assert row["attempt_after"] > row["attempt_before"]
    assert row["before"]["machine_boot_id"] != row["after"]["machine_boot_id"]
    # What it went on from is on the disk, which stays.
    assert 0 <= row["lost_steps"] <= EVERY < row["first_step"]
