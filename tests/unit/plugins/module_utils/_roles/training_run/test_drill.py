"""What is asked for, when a run is fit for a drill, when it is back, and the verdicts: tables."""

from __future__ import annotations

import getpass
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run import drill as _drill
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run import (
    drill_host as _drill_host,
)

ASKED: dict[str, Any] = {
    "fleet_run": "digits",
    "fleet_drill_worker": 0,
    "fleet_drill_duration": "1m",
    "runs": [{"name": "digits", "slices": ["solo", "pair"]}, {"name": "words", "slices": []}],
    "machines": [
        {"host": "solo", "slice": "solo", "worker": 0, "workers": 1, "zone": "z", "project": "p"},
        {"host": "pair-w0", "slice": "pair", "worker": 0, "workers": 2, "zone": "z"},
        {"host": "pair-w1", "slice": "pair", "worker": 1, "workers": 2, "zone": "z"},
    ],
    "endpoint": "https://tpu.googleapis.com/",
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fleet_run": ""}, ["fleet_run", "''", "-e fleet_run=NAME", "digits, words"]),
        ({"fleet_run": "x", "runs": []}, ["fleet_run", "'x'", "none at all"]),
        ({"fleet_drills": ["kil"]}, ["fleet_drills", "'kil'", "kill, agent, reboot"]),
        ({"fleet_drills": "kill,,disk"}, ["fleet_drills", "''"]),
        ({"fleet_drill_worker": 1}, ["fleet_drill_worker", "no worker 1", "worker= 0"]),
        ({"fleet_drill_worker": "-1"}, ["fleet_drill_worker", "'-1'", "from 0 to"]),
        ({"fleet_drill_duration": "long"}, ["fleet_drill_duration", "'long'", "from 5s to 3600s"]),
        ({"fleet_drill_slice": "far"}, ["fleet_drill_slice", "'far'", "solo, pair"]),
        ({"machines": []}, ["fleet_drill_worker", "tpu-fleet doctor"]),
        ({"fleet_run": "words"}, ["fleet_drill_slice", "on none"]),
    ],
)
def test_bad_input_names_field_value_and_remedy(change: dict[str, Any], words: list[str]) -> None:
    found = _drill.plan({**ASKED, **change})
    assert found["steps"] == []
    assert [word for word in words if word not in " ".join(found["problems"])] == []


def test_by_default_nothing_but_time_is_lost() -> None:
    found = _drill.plan(ASKED)
    assert [step["drill"] for step in found["steps"]] == ["kill", "agent", "reboot"]
    assert (found["host"], found["seconds"], found["lost_steps"]) == ("solo", 60, None)
    assert found["problems"] == []


@pytest.mark.parametrize(
    ("change", "drill", "skip"),
    [
        ({}, "partition", "nothing to cut it off from"),
        ({"fleet_drill_slice": "pair"}, "partition", ""),
        ({}, "preempt", "Google has no API"),
        ({"endpoint": "http://127.0.0.1.example.org/"}, "preempt", "Google has no API"),
        ({"endpoint": "http://127.0.0.1:8470/"}, "preempt", ""),
        ({}, "disk", ""),
    ],
)
def test_what_cannot_be_done_there(change: dict[str, Any], drill: str, skip: str) -> None:
    (step,) = _drill.plan({**ASKED, **change, "fleet_drills": drill})["steps"]
    assert bool(step["skip"]) is bool(skip)
    assert skip in step["skip"]


# A run that has done 1 to 150 in its first attempt, in 30 seconds.
RUNNING: dict[str, Any] = {
    "now": 1030.0,
    "machine_boot_id": "a",
    "boot_id": "a",
    "state": "running",
    "reason": "",
    "attempt": 1,
    "start": 999.0,
    "pid": 10,
    "program_alive": True,
    "agent_pid": 5,
    "agent_alive": True,
    "agent_since": 990.0,
    "first_step": 3,
    "first_step_at": 1000.0,
    "step": 150,
    "told_step": 140,
    "saved_at": 1029.0,
    "history": [],
    "harm": False,
}


@pytest.mark.parametrize(
    ("change", "ready"),
    [
        ({}, "yes"),
        ({"saved_at": 900.0}, "wait"),
        ({"saved_at": 900.0, "now": 1061.0}, "yes"),  # it has had its time
        ({"saved_at": None}, "wait"),
        ({"now": 1010.0}, "wait"),  # too young to tell what it loses
        ({"step": None, "first_step": None, "first_step_at": None}, "wait"),  # it told some before
        ({"step": None, "first_step": None, "first_step_at": None, "told_step": None}, "yes"),
        ({"step": 3}, "wait"),
        ({"agent_alive": False}, "wait"),
        ({"boot_id": "b"}, "wait"),
        ({"harm": True}, "wait"),
        ({"state": "failed"}, "never"),
        ({"state": ""}, "never"),
    ],
)
def test_when_a_run_is_fit_for_a_drill(change: dict[str, Any], ready: str) -> None:
    assert _drill.settled({**RUNNING, **change}, 60)[0] == ready


# The attempt after it, from what was saved.
AGAIN: dict[str, Any] = {
    **RUNNING,
    "now": 1050.0,
    "attempt": 2,
    "start": 1034.0,
    "first_step": 142,
    "first_step_at": 1036.5,
    "step": 190,
    "history": [{"attempt": 1, "step": 151}],
}


@pytest.mark.parametrize(
    ("drill", "change", "ready"),
    [
        ("kill", {}, "yes"),
        ("kill", {"attempt": 1}, "wait"),
        ("kill", {"state": "restarting"}, "wait"),
        ("kill", {"state": "failed"}, "never"),
        ("kill", {"state": "succeeded", "program_alive": False}, "yes"),
        ("kill", {"now": 1036.0}, "wait"),  # it may break in a moment
        ("kill", {"step": 142}, "wait"),  # it hangs
        ("kill", {"step": None, "first_step": None}, "wait"),
        ("agent", {"attempt": 1, "agent_pid": 6}, "yes"),
        ("agent", {"attempt": 1}, "wait"),
        ("agent", {"attempt": 1, "agent_pid": 6, "step": 150}, "wait"),
        ("agent", {"attempt": 1, "agent_pid": 6, "agent_alive": False}, "wait"),
        ("reboot", {"boot_id": "b", "machine_boot_id": "b"}, "yes"),
        ("reboot", {"machine_boot_id": "b"}, "wait"),
        ("maintenance", {"attempt": 1}, "wait"),
        ("preempt", {}, "wait"),
        ("preempt", {"boot_id": "b", "machine_boot_id": "b"}, "yes"),
        ("disk", {"attempt": 1}, "yes"),
        ("disk", {"harm": True}, "wait"),
        ("disk", {"now": 1045.0}, "wait"),
        ("partition", {}, "yes"),
    ],
)
def test_when_a_run_is_back(drill: str, change: dict[str, Any], ready: str) -> None:
    assert _drill.came_back(drill, RUNNING, {**AGAIN, **change}, 20)[0] == ready


SILENT = {"step": None, "first_step": None, "first_step_at": None}


@pytest.mark.parametrize(
    ("before", "after", "allowed", "verdict", "lost", "says"),
    [
        ({}, {}, None, "survived", 10, ""),
        ({}, {}, 10, "survived", 10, ""),
        ({}, {}, 9, "lost steps", 10, "fleet_drill_lost_steps (9)"),
        ({}, {"first_step": 152}, 0, "survived", 0, ""),
        # From the beginning; its first steps may be seen late.
        ({}, {"first_step": 1}, None, "lost steps", 151, "began again at step 1"),
        ({}, {"first_step": 9}, None, "lost steps", 143, "began again at step 9"),
        ({}, {"first_step": 41}, None, "survived", 111, ""),
        ({"saved_at": None}, {"first_step": 1}, None, "lost steps", 151, "fleet_drill_settle"),
        ({}, {"attempt": 1, "step": 200}, None, "survived", 0, "not interrupted"),
        ({}, {"attempt": 4}, None, "survived", 10, "it took 3 attempts"),
        (SILENT, SILENT, None, "back, steps unknown", None, "does not report"),
        # What it did between the look and the end counts, what others did before does not.
        ({}, {"history": [{"attempt": 0, "step": 900}]}, None, "survived", 9, ""),
    ],
)
def test_verdicts(
    before: dict[str, Any],
    after: dict[str, Any],
    allowed: int | None,
    verdict: str,
    lost: int | None,
    says: str,
) -> None:
    history = [] if SILENT in (before, after) else AGAIN["history"]
    look = {**AGAIN, "history": history, **after}
    row = _drill.verdict("kill", {**RUNNING, **before}, look, allowed)
    assert (row["verdict"], row["lost_steps"]) == (verdict, lost)
    assert says in row["says"]
    assert bool(says) is bool(row["says"])


@pytest.mark.parametrize(
    ("drill", "after", "seconds"),
    [
        ("kill", {}, 4.0),
        ("agent", {"attempt": 1, "agent_since": 1033.0}, 3.0),
        ("disk", {"attempt": 1}, 0.0),
    ],
)
def test_how_long_it_took(drill: str, after: dict[str, Any], seconds: float) -> None:
    row = _drill.verdict(drill, RUNNING, {**AGAIN, **after})
    assert row["seconds"] == seconds
    assert row["step_seconds"] == (6.5 if drill == "kill" else None)


def test_a_report() -> None:
    rows = [
        _drill.verdict("kill", RUNNING, AGAIN),
        _drill.not_back("reboot", RUNNING, "the run is failed, attempt 3: a | b", 900),
        _drill.not_begun("preempt", "no API", "skipped"),
        _drill.not_begun("disk", "the run is failed"),
    ]
    about = {"run": "digits", "host": "solo", "at": "2026-11-22T03:00:00Z"}
    made = _drill.report(about, rows)
    assert made["bad"] == ["reboot", "disk"]
    head, kill, _reboot, preempt, _disk, *said = made["lines"]
    assert head.split()[:2] == ["drill", "verdict"]
    assert " ".join(kill.split()) == "kill survived 4 s 6.5 s 1 -> 2 151 142 10"
    assert said[0].startswith("reboot: not back after 900 s: the run is failed")
    assert preempt.split()[:2] == ["preempt", "skipped"]
    assert "a \\| b" in made["markdown"]
    data = json.loads(made["json"])
    assert (data["ok"], data["run"], data["drills"][0]["before"]["step"]) == (False, "digits", 150)
    # Only what went well, and what cannot be done there.
    assert _drill.report(about, [rows[0], rows[2]])["ok"]


@pytest.mark.parametrize("addresses", [["10.0.0.2"], ["10.0.0.2", "fd00::2"]])
@pytest.mark.parametrize("there", ["nft", "iptables"])
def test_whatever_is_cut_is_mended(addresses: list[str], there: str) -> None:
    def which(name: str) -> str | None:
        return f"/usr/sbin/{name}" if there in name.replace("ip6", "ip") else None

    cut, mend = _drill_host.firewall(addresses, which)
    assert all(cut.count(address) == 2 for address in addresses)
    if there == "nft":
        assert mend == "/usr/sbin/nft delete table inet tpu_fleet_drill"
        return
    rules = [part.replace(" -I ", " -D ") for part in cut.split(" && ")]
    assert mend == f'/bin/sh -c "{"; ".join(rules)}"'


def test_without_a_firewall_nothing_is_cut() -> None:
    with pytest.raises(_drill_host.CannotDo, match="nftables"):
        _drill_host.firewall(["10.0.0.2"], lambda _name: None)


def host(root: Path, status: dict[str, Any], **files: str) -> dict[str, Any]:
    """Look at a run `digits` of a machine whose files are below a folder."""
    (root / "var/lib/tpu-fleet/runs/digits").mkdir(parents=True, exist_ok=True)
    (root / "run/tpu-fleet/runs/digits/user").mkdir(parents=True, exist_ok=True)
    (root / "var/log").mkdir(exist_ok=True)
    state = root / "var/lib/tpu-fleet/runs/digits/status.json"
    whose = {"user": getpass.getuser(), "program": "running", "state": "running"}
    state.write_text(json.dumps({**whose, **status}))
    for name, text in files.items():
        places = {"log": "var/log/run.log", "told": "run/tpu-fleet/runs/digits/user/progress.json"}
        (root / places[name]).write_text(text)
    return _drill_host.look("digits", root)


def test_how_far_it_is_at_this_moment(tmp_path: Path) -> None:
    log = {"log_path": "/var/log/run.log", "step": 3}
    assert host(tmp_path, {"step": 3})["step"] is None, "of an attempt before"
    lines = "step 5\nStep: 7 loss 2\n"
    assert host(tmp_path, {**log, "first_step": 1}, log=lines)["step"] == 7
    assert host(tmp_path, {**log, "first_step": 1}, log="nothing")["step"] == 3
    assert host(tmp_path, {**log, "first_step": 1}, told='{"step": 9}')["step"] == 9
    assert host(tmp_path, {"state": "restarting", "step": 3})["step"] is None


@pytest.mark.parametrize("name", ["log", "told"])
@pytest.mark.parametrize("user", ["nobody", "nobody-of-that-name"])
def test_a_users_link_leads_root_nowhere(open_path: Path, name: str, user: str) -> None:
    secret = open_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text('step 77\n{"step": 77}' if name == "log" else '{"step": 77}')
    status = {"log_path": "/var/log/run.log", "step": 3, "first_step": 1}
    host(open_path, status)
    place = {"log": "var/log/run.log", "told": "run/tpu-fleet/runs/digits/user/progress.json"}[name]
    # As it is, and as the whole file's own name.
    for way in (os.symlink, os.link):
        (open_path / place).unlink(missing_ok=True)
        way(secret, open_path / place)
        assert host(open_path, {**status, "user": user})["step"] == 3


def test_a_pipe_holds_nobody(tmp_path: Path) -> None:
    status = {"log_path": "/var/log/run.log", "step": 3, "first_step": 1}
    host(tmp_path, status)
    os.mkfifo(tmp_path / "var/log/run.log")
    assert host(tmp_path, status)["step"] == 3
    os.mkfifo(tmp_path / "run/tpu-fleet/runs/digits/user/progress.json")
    assert host(tmp_path, status)["step"] == 3


@pytest.mark.parametrize("pattern", ["(", "step"])
def test_a_pattern_that_is_none_hides_nothing(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "etc/tpu-fleet/runs").mkdir(parents=True)
    definition = tmp_path / "etc/tpu-fleet/runs/digits.json"
    definition.write_text(json.dumps({"step_pattern": pattern}))
    status = {"log_path": "/var/log/run.log", "step": 3, "first_step": 1}
    assert host(tmp_path, status, log="step 5\n")["step"] == 3


def test_the_newer_status_counts_also_when_it_is_in_memory(tmp_path: Path) -> None:
    host(tmp_path, {"serial": 4, "attempt": 1})
    spare = tmp_path / "run/tpu-fleet/runs/digits/status.json"
    spare.write_text(json.dumps({"serial": 5, "attempt": 2}))
    assert _drill_host.look("digits", tmp_path)["attempt"] == 2
    assert _drill_host.look("words", tmp_path)["state"] == ""
