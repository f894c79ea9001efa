"""What a worker answers, from its files."""

from __future__ import annotations

import json
import os
import pwd
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "playbooks/files/how_it_stands.py"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    text = SCRIPT.read_text()
    for place in ("/var/lib", "/var/log", "/run", "/etc"):
        text = text.replace(f'"{place}/tpu-fleet', f'"{folder / Path(place).name}')
    text = text.replace('Path("/proc")', f"Path({str(folder / 'proc')!r})")
    return subprocess.run(
        [sys.executable, "-", *words], input=text.encode(), capture_output=True, check=False
    )


def asked(folder: Path) -> dict[str, Any]:
    done = run(folder)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def write(folder: Path, name: str, status: Any, events: str = "", log: str = "") -> None:
    (folder / "lib/runs" / name).mkdir(parents=True)
    logs = folder / "log/runs" / name
    logs.mkdir(parents=True)
    text = status if isinstance(status, str) else json.dumps(status)
    (folder / "lib/runs" / name / "status.json").write_text(text)
    (logs / "events.jsonl").write_text(events)
    (logs / "run.log").write_text(log)


def test_a_machine_that_was_never_set_up(tmp_path: Path) -> None:
    said = asked(tmp_path)
    assert (said["set_up"], said["runs"]) == (False, [])
    assert said["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_runs(tmp_path: Path) -> None:
    event = {"event": "run-failed", "at": 1, "reason": "bug", "tail": ["Traceback"]}
    lines = [json.dumps({**event, "at": 0, "reason": "old"}), "half a li", json.dumps(event), ""]
    status = {"run": "a", "state": "failed", "attempt": 3, "secret": "hush"}
    write(tmp_path, "a", status, "\n".join(lines))
    log = "".join(f"{n} {'x' * 1000}\n" for n in range(100))
    write(tmp_path, "b", {"run": "b", "state": "succeeded"}, log=log)
    write(tmp_path, "c", {"run": "c", "state": "running"})
    write(tmp_path, "d", "no json")
    # A user's folder of logs may hold anything.
    write(tmp_path, "e", {"run": "e", "state": "failed"})
    (tmp_path / "log/runs/e/run.log").unlink()
    (tmp_path / "log/runs/e/run.log").symlink_to("/etc/passwd")
    (tmp_path / "log/runs/e/events.jsonl").unlink()
    os.mkfifo(tmp_path / "log/runs/e/events.jsonl")
    (tmp_path / "lib/state.json").write_text(json.dumps({"applied": {"host_base": {}}}))
    said = asked(tmp_path)
    assert said["set_up"]
    a, b, c, e = said["runs"]
    told = {key: event[key] for key in ("event", "reason", "tail")}
    assert (a["event"], "tail" in a, "secret" in a) == (told, False, False)
    assert b["event"] == {}
    assert [line.split()[0] for line in b["tail"]] == [str(n) for n in range(68, 100)]
    assert "tail" not in c
    assert (e["event"], e["tail"]) == ({}, [])


def test_a_run_while_the_disk_is_full_and_one_that_never_began(tmp_path: Path) -> None:
    write(tmp_path, "a", {"run": "a", "state": "running", "serial": 4})
    (tmp_path / "run/runs/a").mkdir(parents=True)
    newer = {"run": "a", "state": "failed", "serial": 5}
    (tmp_path / "run/runs/a/status.json").write_text(json.dumps(newer))
    (tmp_path / "etc/runs").mkdir(parents=True)
    (tmp_path / "etc/runs/b.json").write_text(json.dumps({"run": "b", "user": "bob"}))
    [a] = asked(tmp_path)["runs"]
    assert (a["run"], a["state"], a["event"]) == ("a", "failed", {})
    assert json.loads(run(tmp_path, "runs").stdout) == [newer]
    done = run(tmp_path, "back", "a", "b", "c")
    assert done.stdout == b"a: failed, b: not started, c: not there\n"
    assert done.returncode == 1


def test_no_run_is_due(tmp_path: Path) -> None:
    done = run(tmp_path, "back")
    assert (done.returncode, done.stdout) == (0, b"no run is due here\n")


def process(folder: Path, pid: int, parent: int, name: str, words: str, *files: str) -> None:
    place = folder / "proc" / str(pid)
    (place / "fd").mkdir(parents=True)
    (place / "stat").write_text(f"{pid} ({name}) S {parent} 1 1")
    (place / "cmdline").write_bytes(words.replace(" ", "\0").encode())
    for number, file in enumerate(files):
        (place / "fd" / str(number)).symlink_to(file)


def test_who_is_there(tmp_path: Path) -> None:
    me = "root" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    process(tmp_path, 10, 1, "sshd", "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups")
    assert asked(tmp_path)["used"] == []
    # A connection of Ansible's that is kept, and nobody behind it.
    process(tmp_path, 20, 10, "sshd", "sshd: ubuntu@notty")
    process(tmp_path, 25, 10, "train) x", "sshd: not at all", "/dev/null", "/dev/vfio/vfio")
    assert asked(tmp_path)["used"] == []
    process(tmp_path, 30, 10, "sshd", "sshd: alice@pts/0")
    process(tmp_path, 40, 10, "sshd-session", "sshd-session: bob@notty")
    process(tmp_path, 41, 40, "node", "node server.js")
    process(tmp_path, 50, 1, "mosh-server", "mosh-server new")
    process(tmp_path, 60, 1, "python3", "python3 train.py", "/dev/accel0")
    process(tmp_path, 61, 1, "python3", "python3 train.py", "/dev/vfio/3")
    assert asked(tmp_path)["used"] == [
        "alice is logged in on pts/0",
        "bob is logged in",
        f"{me} is logged in by mosh",
        f"process 60 (python3) of {me} holds a chip",
        f"process 61 (python3) of {me} holds a chip",
    ]


def test_who_asks_is_nobody(tmp_path: Path) -> None:
    module = runpy.run_path(str(SCRIPT))
    there = {
        1: (0, "init", "init"),
        20: (1, "sshd", "sshd: ubuntu@notty"),
        os.getpid(): (20, "python3", "python3 -"),
    }
    assert module["people"](there) == []
    assert module["people"]({**there, 20: (1, "sshd", "sshd: ubuntu@pts/1")}) == []


def test_the_log_as_a_terminal_shows_it(tmp_path: Path) -> None:
    log = "10%\r50%\r100%\n\n\x1b[0;31mred\x1b[0m\r\nlong " + "x" * 900
    write(tmp_path, "a", {"run": "a", "state": "failed"}, log=log)
    [run] = asked(tmp_path)["runs"]
    assert run["tail"][:2] == ["100%", "red"]
    assert len(run["tail"][2]) == 500


@pytest.mark.parametrize("tail", [5, None, ["x", 7], {"a": 1}, "x\ny", ["y" * 100_000] * 1000])
def test_what_the_user_writes_into_the_events_is_bounded(tmp_path: Path, tail: Any) -> None:
    event = {"event": "run-failed", "reason": tail, "tail": tail, "more": "z" * 10_000}
    status = {"run": "a", "state": "failed", "attempt": 3}
    write(tmp_path, "a", status, json.dumps({**event, "tail": tail}))
    (run,) = asked(tmp_path)["runs"]
    assert len(json.dumps(run)) < 40_000
    assert all(isinstance(line, str) for line in run["event"].get("tail", []))
