"""Run playbooks in parallel; a thread waits for the end of each."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown_text
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import boottime
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import group_name

from ..workers.play import NOBODY, Event, plain, play
from .decide import INTERRUPTED, Job, Outcome

BOOK = "tpu.fleet.reprovision"
FINISH = "tpu.fleet.finish"
BAD_CHIPS = "tpu.fleet.bad_chips"
APPLY = "tpu.fleet.apply"
KEYS = "tpu.fleet.github_key"
TIMEOUT = 4 * 3600.0
"""Time limit of a playbook; the next one does the rest."""
KEPT = 40
"""Number of files of playbook output that are kept."""
LINES = 30


@dataclass
class Running:
    """A running playbook."""

    job: Job
    log: Path
    started: float
    """Start time; like all its times, in seconds since boot."""
    pid: int = 0
    beside: tuple[str, ...] = ()
    """Further slices that it works on, without an expected result."""
    on_controller: bool = True
    hosts_since: float = math.inf
    """Time at which its part on the workers started."""
    interrupted: bool = False
    ended: Outcome | None = None
    failures: list[tuple[str, str]] = field(default_factory=list)
    kind: str = ""
    hosts: dict[str, bool] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    waits: str = ""


class Jobs:
    """The running playbooks of a watcher."""

    def __init__(self, folder: Path, wake: Callable[[], None]) -> None:
        self._folder = folder
        self._wake = wake
        self._cancelled = threading.Event()
        self.running: list[Running] = []

    @property
    def busy(self) -> set[str]:
        """Slices that a playbook works on."""
        return {name for one in self.running for name in one.job.slices}

    @property
    def gate_free(self) -> bool:
        """Whether no playbook is in its part on the controller, which only one may run."""
        return not any(one.job.api and one.on_controller for one in self.running)

    def start(self, job: Job, beside: Collection[str] = ()) -> Running:
        """Start a playbook for a job, including other slices that it concerns."""
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{'-'.join(job.slices)[:60] or 'fleet'}.log"
        running = Running(job, self._folder / name, boottime(), beside=tuple(sorted(beside)))
        self._cancelled.clear()
        self.running.append(running)
        threading.Thread(target=self._run, args=(running,), daemon=True).start()
        return running

    def finished(self) -> list[Outcome]:
        """Return the jobs that ended since the last call."""
        over = [one for one in self.running if one.ended is not None]
        self.running = [one for one in self.running if one.ended is None]
        return [one.ended for one in over if one.ended is not None]

    def end(self, seconds: float) -> None:
        """End all playbooks; their work can be resumed at any time."""
        for running in self.running:
            self.interrupt(running)
        self._wait(seconds)
        self._cancelled.set()
        self._wait(seconds)

    def in_vain(self, lost: Set[str], looked_at: float) -> list[Running]:
        """Return the playbooks whose slices were all lost while being set up."""
        return [
            one
            for one in self.running
            # The playbook has recreated the slices that were lost before.
            if one.hosts_since < looked_at
            and one.job.slices
            and set(one.job.slices) <= lost
            and not one.interrupted
        ]

    def interrupt(self, running: Running) -> None:
        """Signal a playbook, once, to end."""
        if running.pid and not running.interrupted:
            running.interrupted = True
            _interrupt(running.pid)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while any(one.ended is None for one in self.running) and time.monotonic() < deadline:
            time.sleep(0.1)

    def _run(self, running: Running) -> None:
        job = running.job
        try:
            with open(running.log, "w", encoding="utf-8", opener=_private) as stream:

                def on_event(event: Event) -> None:
                    if event.get("stdout"):
                        stream.write(f"{plain(event['stdout'])}\n")
                        stream.flush()
                    take(running, event)
                    if event.get("event") == "playbook_on_play_start":
                        self._wake()

                code = play(
                    FINISH if job.finish else BAD_CHIPS if job.bad_chips else BOOK,
                    on_event,
                    limit=limit_of(job, running.beside),
                    variables=variables_of(job),
                    # Otherwise a run that failed for good would make every repair fail.
                    skip_tags="runs_are_back",
                    cancelled=self._cancelled.is_set,
                    timeout=TIMEOUT,
                )
            running.ended = outcome_of(running, code)
        # Report any exception, because otherwise the watcher would wait forever.
        except Exception as error:
            running.failures.append(("", f"{type(error).__name__}: {error}"))
            running.ended = outcome_of(running, 1)
        finally:
            self._keep_few()
            self._wake()

    def _keep_few(self) -> None:
        # Names begin with the time of day; if the clock was set back, the newest sort first.
        needed = {one.log for one in self.running}
        for old in sorted(set(self._folder.glob("*.log")) - needed)[:-KEPT]:
            old.unlink(missing_ok=True)


def limit_of(job: Job, beside: Sequence[str] = ()) -> str:
    """Return the hosts of a job in the format of --limit."""
    groups = [group_name("tpu_slice", name) for name in (*job.slices, *beside)]
    return ",".join([*(["localhost", NOBODY] if job.api else []), *groups])


def variables_of(job: Job) -> dict[str, Any]:
    """Return the extra variables of the playbook of a job."""
    # A slice that is lost is to come back, whatever GitHub says of the keys.
    always = {"fleet_github_later": True}
    if job.finish:
        words = {"finish_why": job.finish.why, "finish_ends": job.finish.ends}
        words |= {"finish_how": job.finish.how} if job.finish.held else {}
        return {"finish": job.slices[0], **words, **always}
    if job.bad_chips:
        return {"bad_chips": job.slices[0], "bad_chips_node": job.bad_chips, **always}
    wait = "next" if job.asks else "none"
    return {"fleet_wait": wait, "workers_of": list(job.slices), **always}


def take(running: Running, event: Event) -> None:
    """Record an event of Ansible."""
    data: Mapping[str, Any] = event.get("event_data", {})
    kind = event.get("event")
    running.pid = int(event.get("pid") or running.pid)
    for line in plain(event.get("stdout")).splitlines():
        if line.strip():
            running.lines = [*running.lines, line][-LINES:]
    if kind == "playbook_on_play_start":
        there = data.get("pattern") != "localhost"
        # The playbook returns to the controller after its part on the workers.
        running.on_controller = not there or running.job.takes_away
        if there:
            running.hosts_since = min(running.hosts_since, boottime())
    elif kind in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
        res: Mapping[str, Any] = data.get("res") or {}
        host, task = str(data.get("host")), data.get("task")
        said = shown_text(res.get("msg") or res.get("censored") or "").strip()
        running.failures.append((host, f"{host}: {task}: {said}"))
        if host == "localhost":
            running.kind = str(res.get("kind") or "failed")
    elif kind == "runner_on_ok" and data.get("task_action") == APPLY:
        # Its one task is of one host, and does the work on all.
        res = data.get("res") or {}
        for host in res.get("hosts", ()):
            running.hosts[host] = host not in res.get("failures", ())
    elif kind == "runner_on_ok" and data.get("task_action") == KEYS:
        running.waits = shown_text((data.get("res") or {}).get("waits") or "").strip()
    elif kind == "playbook_on_stats":
        bad = {*data.get("failures", ()), *data.get("dark", ())}
        for host in data.get("processed", ()):
            if host != "localhost":
                running.hosts[host] = host not in bad
    elif kind == "error" and event.get("stdout"):
        running.failures.append(("", plain(event["stdout"]).strip()))


def outcome_of(running: Running, code: int) -> Outcome:
    """Return the outcome of a job."""
    kind = running.kind or ("" if code == 0 or running.hosts else "failed")
    if running.interrupted:
        kind = INTERRUPTED
    return Outcome(
        job=running.job,
        code=code,
        hosts=dict(running.hosts),
        failures=tuple(running.failures),
        kind=kind,
        log=tuple(running.lines),
        waits=running.waits,
    )


def end_left_over(pids: Iterable[str], seconds: float = 15.0) -> list[int]:
    """End the playbooks of a watcher that was killed; return when they have exited."""
    ours = [int(pid) for pid in pids if _is_ours(int(pid))]
    for pid in ours:
        _interrupt(pid)
    deadline = time.monotonic() + seconds
    while any(map(_is_ours, ours)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in filter(_is_ours, ours):
        _interrupt(pid, signal.SIGKILL)
    return ours


def _is_ours(pid: int) -> bool:
    """Return whether this pid is a watcher's playbook; pids are reused."""
    return any(book in _words_of(pid) for book in (BOOK, FINISH, BAD_CHIPS))


def _words_of(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Return the command line of a process; none if there is no such process."""
    if proc.is_dir():
        try:
            return (proc / str(pid) / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            return []
    # macOS has no /proc.
    shown = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    return subprocess.run(shown, capture_output=True, text=True, check=False).stdout.split()


def _interrupt(pid: int, how: signal.Signals = signal.SIGINT) -> None:
    # Like Ctrl-C: Ansible ends its forks, and the module removes its lease.
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
