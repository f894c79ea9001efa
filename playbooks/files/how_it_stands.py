"""How a worker and its runs stand, by what is written there.

Playbooks and the watcher have a worker run this as root, with its own python3, 3.8 and later. It is
also a module of what `tpu-fleet runs` and `logs` send there.

    how_it_stands.py            the worker, its runs with their ends, and who uses it
    how_it_stands.py runs       the runs that the agent knows
    how_it_stands.py back RUN…  whether these run, or have succeeded; exit code 1 if not all do
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import re
import stat
import sys
import time
from pathlib import Path
from typing import Any

RUNS = Path("/var/lib/tpu-fleet/runs")
SPARE = Path("/run/tpu-fleet/runs")  # where a status is while the disk is full
DEFINITIONS = Path("/etc/tpu-fleet/runs")
LOGS = Path("/var/log/tpu-fleet/runs")
STATE = Path("/var/lib/tpu-fleet/state.json")
BOOT = Path("/proc/sys/kernel/random/boot_id")
ENDED = {"failed": "run-failed", "succeeded": "run-succeeded"}
SHOWN = (
    "run", "state", "reason", "attempt", "run_id", "worker", "workers", "exit_code", "signal",
    "step", "step_at", "since", "end", "queue", "boot_id", "user",
)  # fmt: skip
NOT_STARTED = "not started"
LONG = ("history", "peers")  # what nobody needs to know about all runs at once
LINES = 60
PROC = Path("/proc")
# sshd names its processes so: whom they serve, and on which terminal.
SERVES = re.compile(r"sshd(?:-session)?: ([^ @]+)@(\S+)")
CHIP = re.compile(r"/dev/(accel\d+|accel/\d+|vfio/\d+)")
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def read_json(path: Path) -> dict[str, Any]:
    """Return a file's object; nothing when it is missing or broken."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def status_of(run: str) -> dict[str, Any]:
    """Return what the agent wrote about a run, or what was declared when it wrote nothing."""
    both = [read_json(folder / run / "status.json") for folder in (RUNS, SPARE)]
    status = max(both, key=lambda one: one.get("serial", 0) if one else -1)
    if status:
        return {key: value for key, value in status.items() if key not in LONG}
    declared = read_json(DEFINITIONS / (run + ".json"))
    if declared:
        return {"run": run, "user": declared.get("user", ""), "state": NOT_STARTED}
    return {}


def names() -> list[str]:
    """Return the names of all runs of this worker."""
    found = {path.parent.name for place in (RUNS, SPARE) for path in place.glob("*/status.json")}
    for path in DEFINITIONS.glob("*.json"):
        if not path.name.endswith(".env.json"):
            found.add(path.stem)
    return sorted(found)


def boot_id() -> str:
    """Return which boot this is."""
    return BOOT.read_text(encoding="ascii").strip()


def list_runs() -> dict[str, Any]:
    """Return all runs, and by which clock and since which boot they are told."""
    found = [status for status in map(status_of, names()) if status]
    return {"now": time.time(), "boot_id": boot_id(), "runs": found}


def last_lines(path: Path, most: int) -> list[str]:
    """Return the last lines of a file, whole ones, of so many bytes at most.

    The file is a user's: it may be a link to what is not theirs, or a pipe that never ends.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return []
        stream.seek(max(0, found.st_size - most))
        lines = stream.read(most).decode("utf-8", "replace").split("\n")
    return lines[1:] if found.st_size > most else lines


def shown(lines: list[str]) -> list[str]:
    """Return lines as a terminal would show them in the end, without colours."""
    plain = [COLOURS.sub("", line).rstrip("\r").rpartition("\r")[2].rstrip() for line in lines]
    return [line[:500] for line in plain if line][-LINES:]


def last_event(run: str, name: str) -> dict[str, Any]:
    """Return the last event of a name in a run's log of events."""
    found: dict[str, Any] = {}
    for line in last_lines(LOGS / run / "events.jsonl", 1 << 18):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and event.get("event") == name:
            found = bounded(event)
    return found


def bounded(event: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of an event; the run's user may have written anything there."""
    reason, tail = event.get("reason"), event.get("tail")
    lines = tail.split("\n") if isinstance(tail, str) else tail
    lines = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
    said = {"event": event["event"], "tail": shown(lines)}
    return {**said, "reason": reason[:500]} if isinstance(reason, str) else said


def with_its_end(status: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be told of a run; of one that ended, with the end of its log."""
    run = {name: status.get(name) for name in SHOWN}
    if run["state"] in ENDED:
        folder = str(run["run"])
        event = last_event(folder, ENDED[run["state"]])
        run["event"] = event
        if not event.get("tail"):
            run["tail"] = shown(last_lines(LOGS / folder / "run.log", 1 << 15))
    return run


def processes() -> dict[int, tuple[int, str, str]]:
    """Return of each process its parent, its name, and its words."""
    found = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            # The name may have blanks and parentheses.
            name, _end, rest = (folder / "stat").read_text(errors="replace").rpartition(")")
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
        found[int(folder.name)] = (int(rest.split()[1]), name.partition("(")[2], words.strip())
    return found


def people(there: dict[int, tuple[int, str, str]]) -> list[str]:
    """Say who is logged in: on a terminal, by mosh, or with a program that goes on (an editor)."""
    ours = set()
    pid = os.getpid()
    while pid in there and pid not in ours:
        ours.add(pid)
        pid = there[pid][0]
    parents = {parent for parent, _name, _words in there.values()}
    found = set()
    for pid, (_parent, name, words) in there.items():
        serves = SERVES.match(words)
        if serves and pid not in ours and (serves[2] != "notty" or pid in parents):
            on = "" if serves[2] == "notty" else f" on {serves[2]}"
            found.add(f"{serves[1]} is logged in{on}")
        elif name == "mosh-server":
            try:
                found.add(f"{name_of((PROC / str(pid)).stat().st_uid)} is logged in by mosh")
            except OSError:
                continue
    return sorted(found)


def holders(there: dict[int, tuple[int, str, str]]) -> list[str]:
    """Say who has a chip open."""
    found = []
    for pid, (_parent, name, _words) in sorted(there.items()):
        try:
            held = [os.readlink(one) for one in (PROC / str(pid) / "fd").iterdir()]  # noqa: PTH115
            owner = name_of((PROC / str(pid)).stat().st_uid)
        except OSError:
            continue
        if any(CHIP.fullmatch(one) for one in held):
            found.append(f"process {pid} ({name}) of {owner} holds a chip")
    return found


def name_of(uid: int) -> str:
    """Return whose number it is."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def begun() -> list[dict[str, Any]]:
    """Return all runs but those that are only declared: a playbook would bring those."""
    return [one for one in list_runs()["runs"] if one.get("state") != NOT_STARTED]


def state_now(run: str) -> str:
    """Say how a run stands since this boot."""
    status = status_of(run)
    # What ran before a reboot is in the file until the agent is up again.
    if status.get("state") == "running" and status.get("boot_id") != boot_id():
        return "not back since the reboot"
    return str(status.get("state", "not there"))


def back(due: list[str]) -> int:
    """Print how these runs stand; return whether one of them is not back."""
    states = {run: state_now(run) for run in due}
    told = ", ".join(f"{run}: {state}" for run, state in states.items())
    print(told or "no run is due here")
    return int(not set(states.values()) <= {"running", "succeeded"})


def main(words: list[str]) -> int:
    """Print what is asked for; return the exit code."""
    if words[:1] == ["back"]:
        return back(words[1:])
    if words == ["runs"]:
        print(json.dumps(begun()))
        return 0
    applied = read_json(STATE).get("applied") or {}
    there = processes()
    text = json.dumps(applied, sort_keys=True).encode()
    said = {
        "now": time.time(),
        "boot_id": boot_id(),
        "runs": [with_its_end(one) for one in begun()],
        "set_up": bool(applied),
        "applied": hashlib.sha256(text).hexdigest()[:16],
        "used": people(there) + holders(there),
    }
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
