"""What a worker answers, from its files."""

from __future__ import annotations

import json
import os
import pwd
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import worker_words
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._host import standing as _standing
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import BACK, RunFiles
from ansible_collections.tpu.fleet.plugins.module_utils._host.standing import (
    SHOWN,
    TITLE,
    people,
    processes,
    standing,
)

BOOT = "6f2b8c1e-0000-4000-8000-000000000001"


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """Return a folder in place of a worker's root."""
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text(f"{BOOT}\n")
    return tmp_path


def write(folder: Path, name: str, status: Any, events: str = "", log: str = "") -> None:
    (folder / "var/lib/tpu-fleet/runs" / name).mkdir(parents=True)
    logs = folder / "var/log/tpu-fleet/runs" / name
    logs.mkdir(parents=True)
    text = status if isinstance(status, str) else json.dumps(status)
    (folder / "var/lib/tpu-fleet/runs" / name / "status.json").write_text(text)
    (logs / "events.jsonl").write_text(events)
    (logs / "run.log").write_text(log)


def test_a_machine_that_was_never_set_up(worker: Path) -> None:
    said = standing(worker)
    assert (said["set_up"], said["runs"]) == (False, [])
    assert said["boot_id"] == BOOT


def test_runs(worker: Path) -> None:
    event = {"event": "run-failed", "at": 1, "reason": "bug", "tail": ["Traceback"]}
    lines = [json.dumps({**event, "at": 0, "reason": "old"}), "half a li", json.dumps(event), ""]
    status = {"run": "a", "state": "failed", "attempt": 3, "secret": "hush"}
    write(worker, "a", status, "\n".join(lines))
    log = "".join(f"{n} {'x' * 1000}\n" for n in range(100))
    write(worker, "b", {"run": "b", "state": "succeeded"}, log=log)
    write(worker, "c", {"run": "c", "state": "running"})
    write(worker, "d", "no json")
    # A user's folder of logs may hold anything.
    write(worker, "e", {"run": "e", "state": "failed"})
    (worker / "var/log/tpu-fleet/runs/e/run.log").unlink()
    (worker / "var/log/tpu-fleet/runs/e/run.log").symlink_to("/etc/passwd")
    (worker / "var/log/tpu-fleet/runs/e/events.jsonl").unlink()
    os.mkfifo(worker / "var/log/tpu-fleet/runs/e/events.jsonl")
    (worker / "var/lib/tpu-fleet/state.json").write_text(json.dumps({"applied": {"host_base": {}}}))
    said = standing(worker)
    assert said["set_up"]
    a, b, c, e = said["runs"]
    told = {key: event[key] for key in ("event", "reason", "tail")}
    assert (a["event"], "tail" in a, "secret" in a) == (told, False, False)
    assert b["event"] == {}
    assert [line.split()[0] for line in b["tail"]] == [str(n) for n in range(68, 100)]
    assert "tail" not in c
    assert (e["event"], e["tail"]) == ({}, [])


def test_the_watcher_is_given_all_that_it_reads_of_a_run() -> None:
    read = {one.name for one in fields(RunStatus)}
    # What is made of a run's files, of its queue, or read by other questions alone.
    of_files = {"ending", "past", "archive", "pid"}
    figures = {"chips", "inside", "mfu", "stand_out", "start_counts", "start_parts"}
    of_queue = {"behind", "behind_user"}
    assert read - set(SHOWN) == of_files | of_queue | figures | {"tokens_per_second"}


def test_who_keeps_a_run_stopped(worker: Path) -> None:
    write(worker, "a", {"run": "a", "state": "stopped"})
    RunFiles(worker).mark("a").write_text(json.dumps({"by": "budget"}))
    [run] = worker_words.standing("pair-w0", json.dumps(standing(worker))).runs
    assert (run.state, run.stopped_by) == ("stopped", "budget")


def test_a_run_while_the_disk_is_full_and_one_that_never_began(worker: Path) -> None:
    write(worker, "a", {"run": "a", "state": "running", "serial": 4})
    (worker / "run/tpu-fleet/runs/a").mkdir(parents=True)
    newer = {"run": "a", "state": "failed", "serial": 5}
    (worker / "run/tpu-fleet/runs/a/status.json").write_text(json.dumps(newer))
    (worker / "etc/tpu-fleet/runs").mkdir(parents=True)
    (worker / "etc/tpu-fleet/runs/b.json").write_text(json.dumps({"run": "b", "user": "bob"}))
    [a] = standing(worker)["runs"]
    assert (a["run"], a["state"], a["event"]) == ("a", "failed", {})
    files = RunFiles(worker)
    # It has no definition any more.
    assert files.begun() == [{**newer, "declared": False}]
    states = [files.state_now(run) for run in ("a", "b", "c")]
    assert states == ["failed", "not started", "not there"]
    (worker / "var/lib/tpu-fleet/runs/a/status.json").write_text(json.dumps({**newer, "serial": 6}))
    (worker / "etc/tpu-fleet/runs/a.json").write_text("{}")
    assert files.begun() == [{**newer, "serial": 6}]


def test_the_folders_of_runs(worker: Path) -> None:
    write(worker, "a", {"run": "a", "workdir": "/srv/old", "serial": 1})
    spare = worker / "run/tpu-fleet/runs/a/status.json"
    spare.parent.mkdir(parents=True)
    spare.write_text(json.dumps({"run": "a", "workdir": "/srv/a", "serial": 2}))
    write(worker, "b", {"run": "b", "workdir": 5})
    definitions = worker / "etc/tpu-fleet/runs"
    definitions.mkdir(parents=True)
    (definitions / "c.json").write_text(json.dumps({"run": "c", "workdir": "/srv/c"}))
    (definitions / "c.env.json").write_text(json.dumps({"workdir": "/srv/secret"}))
    assert RunFiles(worker).workdirs() == {"/srv/old", "/srv/a", "/srv/c"}


@pytest.mark.parametrize(
    ("state", "boot", "now"),
    [
        ("running", BOOT, "running"),
        ("running", "another", "not back since the reboot"),
        ("succeeded", "another", "succeeded"),
        ("restarting", BOOT, "restarting"),
        ("failed", BOOT, "failed"),
    ],
)
def test_how_a_run_stands_since_this_boot(worker: Path, state: str, boot: str, now: str) -> None:
    write(worker, "r", {"run": "r", "state": state, "boot_id": boot})
    assert RunFiles(worker).state_now("r") == now
    assert (now in BACK) == (now in ("running", "succeeded"))


SSHD = "/usr/sbin/sshd"


def process(
    folder: Path,
    pid: int,
    parent: int,
    name: str,
    words: str,
    *files: str,
    program: str = "/usr/bin/python3.10",
    users: str = "2001 2001 2001 2001",
) -> None:
    place = folder / "proc" / str(pid)
    (place / "fd").mkdir(parents=True)
    (place / "stat").write_text(f"{pid} ({name}) S {parent} 1 1")
    (place / "cmdline").write_bytes(words.replace(" ", "\0").encode())
    (place / "exe").symlink_to(program)
    (place / "status").write_text(f"Name:\t{name}\nUid:\t{users}\nGid:\t0 0 0 0\n")
    for number, file in enumerate(files):
        (place / "fd" / str(number)).symlink_to(file)


def test_who_is_there(worker: Path) -> None:
    me = "root" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    listens = "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"
    process(worker, 10, 1, "sshd", listens, program=SSHD, users="0 0 0 0")
    assert standing(worker)["used"] == []
    # A connection of Ansible's that is kept, and nobody behind it.
    process(worker, 20, 10, "sshd", "sshd: ubuntu@notty")
    process(worker, 25, 10, "train) x", "sshd: not at all", "/dev/null", "/dev/vfio/vfio")
    assert standing(worker)["used"] == []
    process(worker, 30, 10, "sshd", "sshd: alice@pts/0")
    process(worker, 40, 10, "sshd-session", "sshd-session: bob@notty")
    process(worker, 41, 40, "node", "node server.js")
    process(worker, 50, 1, "mosh-server", "mosh-server new")
    process(worker, 60, 1, "python3", "python3 train.py", "/dev/accel0")
    process(worker, 61, 1, "python3", "python3 train.py", "/dev/vfio/3")
    assert standing(worker)["used"] == [
        "alice is logged in on pts/0",
        "bob is logged in",
        f"{me} is logged in by mosh",
        f"process 60 (python3) of {me} holds a chip",
        f"process 61 (python3) of {me} holds a chip",
    ]


@pytest.mark.parametrize(
    ("title", "program", "users"),
    [
        # A shell of alice's, a setuid program that she gave another title, one that waits as root
        # for a password, and sshd itself, started by her.
        ("bash", "/bin/bash", "2001 2001 2001 2001"),
        ("sshd: bob [priv]", "/usr/bin/passwd", "2001 0 0 0"),
        ("sshd: bob [priv]", "/usr/bin/sudo", "0 0 0 0"),
        ("sshd: bob [priv]", SSHD, "2001 2001 2001 2001"),
        ("sshd: bob [priv]", "/home/alice/usr/sbin/sshd", "0 0 0 0"),
    ],
)
def test_a_process_with_the_title_of_a_login_is_none(
    worker: Path, title: str, program: str, users: str
) -> None:
    process(worker, 20, 1, "sshd", title, program=program, users=users)
    process(worker, 21, 20, "sshd", "sshd: bob@pts/7")
    process(worker, 22, 4, "sshd", "sshd: bob@pts/8")
    assert standing(worker)["used"] == []


def test_of_two_thousand_logins_and_chips_some_are_named(worker: Path) -> None:
    process(worker, 10, 1, "sshd", "sshd", program=f"{SSHD} (deleted)", users="0 0 0 0")
    for number in range(2000):
        process(worker, 10**7 + number, 10, "sshd", f"sshd: alice@pts/{number}", "/dev/accel0")
    used = standing(worker)["used"]
    assert len(used) == 202
    assert used[100] == "1900 more logins"
    assert used[-1] == "1900 more processes hold a chip"


def test_of_millions_of_open_files_some_are_looked_at(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_standing, "FILES", 10)
    process(worker, 20, 1, "hoard", "hoard", *["/dev/null"] * 8)
    process(worker, 30, 1, "hoard", "hoard", *["/dev/null"] * 8)
    process(worker, 40, 1, "train", "train", "/dev/accel0")
    assert standing(worker)["used"] == ["2 processes with too many open files to look at"]


def test_a_command_line_of_megabytes_is_read_in_part(worker: Path) -> None:
    process(worker, 20, 1, "x", "x" * 10_000_000)
    assert len(processes(worker / "proc")[20][2]) == TITLE


def test_who_asks_is_nobody(worker: Path) -> None:
    there = {
        1: (0, "init", "init"),
        20: (1, "sshd", "sshd: ubuntu@notty"),
        os.getpid(): (20, "python3", "python3 -"),
    }
    assert people(worker / "proc", there) == []
    assert people(worker / "proc", {**there, 20: (1, "sshd", "sshd: ubuntu@pts/1")}) == []


def test_the_log_as_a_terminal_shows_it(worker: Path) -> None:
    log = "10%\r50%\r100%\n\n\x1b[0;31mred\x1b[0m\r\nlong " + "x" * 900
    write(worker, "a", {"run": "a", "state": "failed"}, log=log)
    [run] = standing(worker)["runs"]
    assert run["tail"][:2] == ["100%", "red"]
    assert len(run["tail"][2]) == 500


@pytest.mark.parametrize("tail", [5, None, ["x", 7], {"a": 1}, "x\ny", ["y" * 100_000] * 1000])
def test_what_the_user_writes_into_the_events_is_bounded(worker: Path, tail: Any) -> None:
    event = {"event": "run-failed", "reason": tail, "tail": tail, "more": "z" * 10_000}
    status = {"run": "a", "state": "failed", "attempt": 3}
    write(worker, "a", status, json.dumps({**event, "tail": tail}))
    (run,) = standing(worker)["runs"]
    assert len(json.dumps(run)) < 40_000
    assert all(isinstance(line, str) for line in run["event"].get("tail", []))
