"""All that this worker shows of a run, as JSON for `tpu-fleet why` and as text for people.

Its declaration is the collection's `_evidence`. Looking disturbs no run: it reads, and has Python's
processes write where they stand to a file of their own.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..decide import bounds, last_error, program_words
from ..decide.config import Config
from ..decide.values import one_line
from . import (
    chip_holders,
    chip_monitor,
    kernel_view,
    listeners,
    memory_look,
    port_test,
    preparation,
    processes,
    readiness,
    sockets,
    stacks,
    store,
    terminal,
    worker_ports,
)
from .hand import Hand

_LOOKED = 0.5  # seconds in which CPU time is counted, at least
_DISK_SECONDS = 3.0
_PEERS_SECONDS = 3.2  # the second packet of a connection, after 1 s, and the third have their time
_LOG_BYTES = 512 * 1024
_MOST_CHIP_FILES = 300_000


@dataclass(frozen=True)
class Found:
    """The evidence as it is sent, and the same for people with what was read word by word."""

    evidence: dict[str, Any]
    text: str


def gather(config: Config, hand: Hand) -> Found:
    """Look at a run on this worker; take at most some seconds."""
    begun = time.monotonic()
    kept = store.status_of(config.paths)
    status = kept.load() or {}
    pids = of_run(config, status)
    used = {pid: kernel_view.cpu_seconds(pid) for pid in pids}
    versions = _versions(config, hand, pids, status)
    chips = _chips(config, set(pids))
    uses = any(one["ours"] for one in chips["holders"])
    reaching = _reaching(config, versions, bool(chips["present"]))
    lines = last_error.lines_of(hand.tail(config.paths.log, _LOG_BYTES), _whole(status, "attempt"))
    said = stacks.said_by(config, hand, pids)
    ports, by_inode = _ports(pids)
    shown = _threads(pids, said, by_inode)
    found = {
        "worker": config.worker,
        "host": socket.gethostname(),
        "at": time.time(),
        "run": _run(config, hand, status, lines),
        "error": last_error.last_error(lines),
        # What another run does with the chips is of no concern to one that does not use them.
        "chips": chips if uses or preparation.needs_tpu(config) else None,
        "monitoring": _monitoring(config) if uses else None,
        "disk": _disks(config, status),
        "memory": memory_look.memory(
            terminal.uid_of(config.user), _real(status, "start"), _whole(status, "agent_pid")
        ),
        "versions": versions,
        "notes": _notes(said),
    }
    peers = reaching.look(_PEERS_SECONDS)
    while peers is None:
        peers = reaching.look(_PEERS_SECONDS)
    found["ports"] = {**ports, "peers": worker_ports.rows(peers)[: bounds.PEERS]}
    time.sleep(max(0.0, _LOOKED - (time.monotonic() - begun)))
    found["processes"] = [
        _process(pid, used[pid], time.monotonic() - begun, said, shown[pid]) for pid in pids
    ]
    found["took_s"] = round(time.monotonic() - begun, 3)
    text = _text(config, found, said)
    return Found(within_bounds(found), text[: bounds.RAW])


def within_bounds(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out outer frames, and then threads, of a run that has too many of them."""
    for frames, threads in ((bounds.FRAMES, bounds.THREADS), (8, bounds.THREADS), (3, 1)):
        cut = [_cut(process, frames, threads) for process in found["processes"]]
        found = {**found, "processes": cut}
        if len(json.dumps(found)) <= bounds.EVIDENCE:
            return found
    return {**found, "processes": found["processes"][:20]}


def _cut(process: Mapping[str, Any], frames: int, threads: int) -> dict[str, Any]:
    kept = [
        {**one, "python": None if one["python"] is None else one["python"][:frames]}
        for one in process["threads"][:threads]
    ]
    return {**process, "threads": kept}


def of_run(config: Config, status: Mapping[str, Any]) -> list[int]:
    """Return the processes of the run, the oldest first."""
    parent = status.get("parent")
    known = isinstance(parent, int) and status.get("boot_id") == processes.boot_id()
    return readiness.of_run(config, parent if known else None)[: bounds.PROCESSES]


def _whole(status: Mapping[str, Any], key: str) -> int:
    value = status.get(key)
    return value if isinstance(value, int) else 0


def _real(status: Mapping[str, Any], key: str) -> float | None:
    value = status.get(key)
    return float(value) if isinstance(value, (int, float)) else None


def _run(config: Config, hand: Hand, status: Mapping[str, Any], lines: list[str]) -> dict[str, Any]:
    """Return what the agent knows of the run, with the step as it is now."""
    now, log = time.time(), hand.stamp(config.paths.log)
    step, step_at = _step(config, hand, status, lines)
    problems = status.get("problems")
    return {
        "name": config.run,
        "attempt": _whole(status, "attempt"),
        "state": status.get("state", ""),
        "reason": status.get("reason", ""),
        "run_id": status.get("run_id", ""),
        "user": config.user,
        "workers": config.workers,
        "hang_seconds": config.hang_seconds,
        "agent": processes.agent_of(status) is not None,
        "program": {"running": "running", "exited": "ended"}.get(str(status.get("program")), ""),
        "definition": config.definition,
        "step": step,
        "step_age_s": _age(now, step_at),
        "step_s": _seconds_of_a_step(status, step, step_at),
        "log_age_s": _age(now, log[2] / 1e9 if log else None),
        "log_tail": last_error.tail(lines),
        "started_age_s": _age(now, _real(status, "start")),
        "exit": status.get("exit_code"),
        "signal": status.get("signal"),
        "problems": (problems if isinstance(problems, list) else [])[: bounds.PROBLEMS],
        "stand_out": list(status.get("stand_out") or ())[: bounds.PROBLEMS],
    }


def _age(now: float, at: float | None) -> float | None:
    return None if at is None else round(max(0.0, now - at), 3)


def _step(
    config: Config, hand: Hand, status: Mapping[str, Any], lines: list[str]
) -> tuple[int | None, float | None]:
    """Return the step, and when the program came to it; the status is up to 10 seconds old."""
    path = config.paths.user / "progress.json"
    step, stamp = program_words.said(hand.read(path, program_words.LINE)), hand.stamp(path)
    if step is None:
        pattern, _error = program_words.compiled(config.step_pattern)
        text = "\n".join(lines).encode("utf-8", "replace")
        step = program_words.last_step(text, pattern) if pattern else None
        stamp = hand.stamp(config.paths.log)
    first_at, known_at = _real(status, "first_step_at"), _real(status, "step_at")
    if step is None:
        # What the log has lost meanwhile, of this attempt.
        known = status.get("step") if first_at is not None else None
        return (known if isinstance(known, int) else None), (known_at if known else None)
    written = stamp[2] / 1e9 if stamp else None
    # The agent notes a step late; the file may have been written again since.
    if step == status.get("step") and known_at is not None and first_at is not None:
        return step, min(known_at, written or known_at)
    return step, written


def _seconds_of_a_step(
    status: Mapping[str, Any], step: int | None, step_at: float | None
) -> float | None:
    """Return how long a step took on average, in this attempt."""
    first, first_at = status.get("first_step"), _real(status, "first_step_at")
    if not isinstance(first, int) or first_at is None or step is None or step_at is None:
        return None
    return round((step_at - first_at) / (step - first), 4) if step > first else None


def _threads(
    pids: list[int], said: Mapping[int, stacks.Said], by_inode: Mapping[str, str]
) -> dict[int, list[dict[str, Any]]]:
    """Return the threads of each process, with their Python stacks."""
    found: dict[int, list[dict[str, Any]]] = {}
    left = bounds.THREADS
    for pid in pids:
        tids = _most_telling(pid, said)[:left]
        left -= len(tids)
        found[pid] = []
        for tid in tids:
            thread = kernel_view.thread(pid, tid)
            on = thread["on"]
            inode = on[8:-1] if on.startswith("socket:[") else ""
            frames = said[pid].threads.get(tid) if pid in said else None
            python = None if frames is None else [list(one) for one in frames]
            found[pid].append({**thread, "on": by_inode.get(inode, on), "python": python})
    return found


def _most_telling(pid: int, said: Mapping[int, stacks.Said]) -> list[int]:
    """Return a process's threads: first those that have a Python stack."""
    known = said[pid].threads if pid in said else {}
    return sorted(kernel_view.tids(pid), key=lambda tid: (tid not in known, tid))


def _process(
    pid: int,
    used: float | None,
    looked: float,
    said: Mapping[int, stacks.Said],
    threads: list[dict[str, Any]],
) -> dict[str, Any]:
    now = kernel_view.cpu_seconds(pid)
    recent = None if now is None or used is None else round(max(0.0, now - used), 3)
    age = kernel_view.age(pid)
    return {
        "pid": pid,
        "parent": kernel_view.parent(pid),
        "state": kernel_view.state_of(pid),
        "command": one_line(processes.command_line(pid), bounds.TEXT),
        "age_s": None if age is None else round(age, 2),
        "cpu_s_recent": recent,
        "looked_s": round(looked, 3),
        "stacks_by": said[pid].by if pid in said else "",
        "threads": threads,
    }


def _chips(config: Config, ours: set[int]) -> dict[str, Any]:
    """Return the chips that are there, and the processes that have them open."""
    root = config.paths.root
    there = chip_holders.devices(root)
    found, _unseen = chip_holders.holders(root, _MOST_CHIP_FILES) if there else ([], 0)
    held = [
        {
            "chip": chip,
            "pid": one.pid,
            "command": one_line(processes.command_line(one.pid), bounds.TEXT),
            "user": one.user,
            "ours": one.pid in ours,
        }
        for one in found
        for chip in one.devices
    ]
    return {"present": len(there), "holders": held[: bounds.HOLDERS]}


def _monitoring(config: Config) -> dict[str, Any]:
    """Return what libtpu's monitoring port says, if the run's user or root has it."""
    uid = terminal.uid_of(config.user)
    told = chip_monitor.look({0} if uid is None else {0, uid})
    why_not = "no program listens there" if not told["reached"] else told.get("refused", "")
    return {
        "reached": told["reached"] and not why_not,
        "why_not": why_not,
        "cores": [_core(core) for core in told.get("cores", [])[: bounds.CORES]],
        "metrics": {
            name: [values[device] for device in sorted(values)][: bounds.CORES]
            for name, values in told.get("metrics", {}).items()
        },
    }


def _core(core: Mapping[str, Any]) -> dict[str, Any]:
    queued = [_program_of(one) for one in core["queued"][: bounds.QUEUED]]
    launch = core["launch_id"]
    return {
        "core": min(core["core"], 1024),
        "state": core["state"],
        "run_id": "" if core["run_id"] is None else str(core["run_id"]),
        "launch_id": launch if launch is not None and abs(launch) < 1 << 53 else None,
        "program": core["program"] or "",
        "hlo": core["hlo"] or "",
        "queued": queued,
        "error": core["error"] or "",
    }


def _program_of(one: Mapping[str, Any]) -> str:
    """Name a program that waits: its fingerprint and its launch."""
    launch = "" if one["launch_id"] is None else f" launch {one['launch_id']}"
    return f"{one['program'] or 'unknown'}{launch}"


def _ports(pids: list[int]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the ports as the evidence has them, and what each socket is about."""
    there = sockets.sockets(listeners.tables())
    wanted = [one for one in there if one.state != "TIME_WAIT" and one.inode != "0"]
    held = sockets.holders({one.inode for one in wanted}, pids)
    listening = sorted({(o.own_port, held.get(o.inode, 0)) for o in wanted if o.state == "LISTEN"})
    leads = [one for one in wanted if one.state != "LISTEN" and one.inode in held]
    leads.sort(key=lambda one: (one.state != "SYN_SENT", one.unsent == 0, one.port))
    connecting = [
        {
            "pid": held[one.inode],
            "address": one.address,
            "port": one.port,
            "state": one.state,
            "unsent": one.unsent,
        }
        for one in leads[: bounds.CONNECTING]
    ]
    ports = [[port, pid, pid > 0] for port, pid in listening[: bounds.LISTENING]]
    return (
        {"listening": ports, "connecting": connecting},
        {one.inode: one.said for one in wanted},
    )


def _disks(config: Config, status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the room where the run writes; the checkpoints last, as a share may not answer."""
    workdir = str(status.get("workdir") or config.workdir)
    places = [("log", str(config.paths.log.parent)), ("tmp", "/tmp"), ("work", workdir)]  # noqa: S108
    places.append(("checkpoints", config.checkpoint_dir))
    there = [(what, path) for what, path in places if path.startswith("/")]
    asked = Hand(config.user, _DISK_SECONDS)
    try:
        # On a busy machine it may not even begin in time: that says nothing of a disk.
        if asked.real_folder("/") != "/":
            return [{"what": what, "path": path} for what, path in there]
        return [_disk(asked, what, path) for what, path in there]
    finally:
        asked.close()


def _disk(asked: Hand, what: str, path: str) -> dict[str, Any]:
    try:
        room = asked.room(Path(path))
    except OSError as error:
        return {"what": what, "path": path, "answers": error.errno is not None}
    return {"what": what, "path": path, **(room or {})}


def _reaching(config: Config, versions: Mapping[str, str], chips: bool) -> port_test.PortTest:
    """Begin to try the ports that the run needs of the other workers."""
    sizes = tuple(len(part) for part in config.slices) or (config.workers,)
    megascale = config.megascale_port if config.slices else 0
    own, coordinator = config.peer_port, config.coordinator_port
    gang = worker_ports.Gang(tuple(config.hosts), config.worker, sizes, own, coordinator, megascale)
    needs = worker_ports.needed(gang, versions, config.env, chips)
    return port_test.PortTest(worker_ports.targets(gang, needs, bounds.PEERS), _PEERS_SECONDS)


def _versions(
    config: Config, hand: Hand, pids: list[int], status: Mapping[str, Any]
) -> dict[str, str]:
    """Return what the run's Python and its frameworks are, as its processes have them loaded."""
    venv = hand.real_folder(config.venv) if config.venv else ""
    found = hand.versions(venv, _package_folders(pids))
    programs = [processes.program(pid) for pid in pids]
    python = next((name for name in programs if name.startswith("python")), "")
    code = str(status.get("workdir") or "") if config.code else ""
    own = {"python": python[len("python") :], "code": code, "venv": venv}
    return {**found, **{name: text for name, text in own.items() if text}}


def _package_folders(pids: list[int]) -> list[str]:
    """Return the folders of packages from which processes have loaded libraries."""
    found: dict[str, None] = {}
    for pid in pids[:20]:
        for path in kernel_view.mapped(pid):
            head, part, _rest = path.partition("-packages/")
            if part and head.startswith("/"):
                found[f"{head}-packages"] = None
    return list(found)[:8]


def _notes(said: Mapping[int, stacks.Said]) -> list[str]:
    notes = [f"process {pid}: {one.why_not}" for pid, one in said.items() if one.why_not]
    return [one_line(note, bounds.TEXT) for note in notes[: bounds.PROBLEMS]]


def _text(config: Config, found: Mapping[str, Any], said: Mapping[int, stacks.Said]) -> str:
    """Return for people where each process stands."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found["at"]))
    attempt = found["run"]["attempt"]
    parts = [f"Run {config.run}, attempt {attempt}, worker {config.worker}, at {stamp}", ""]
    for process in found["processes"]:
        pid = process["pid"]
        parts.append(f"== process {pid}: {process['command']}")
        for thread in process["threads"]:
            way = kernel_view.way(pid, thread["tid"]) or thread["wchan"]
            words = (thread["name"], thread["state"], thread["syscall"], thread["on"], way)
            parts.append(f"  thread {thread['tid']} " + " ".join(word for word in words if word))
        one = said.get(pid, stacks.Said())
        if one.by:
            parts.append(f"-- Python's stacks, by {one.by}")
        parts += [one.text or one.why_not, ""]
    return "\n".join(parts)
