"""Run the collection's playbooks through ansible-runner, in the current folder."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown, shown_text
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.progress import VARIABLE

from .inventory.ansible_config import inventory_sources
from .inventory.read import PlayError, require_fleet

# A host in no group of the fleet. Ansible refuses a limit that leaves only localhost although there
# are other hosts, which happens for a slice that does not exist yet.
NOBODY = "tpu-fleet-nobody"
Event = Mapping[str, Any]
LONGEST = 10_000
"""Lines of one event, and characters of one line, that are kept."""
PATIENCE = 20.0
"""Seconds that an interrupted playbook has for its end."""


def plain(text: Any) -> str:
    """Remove colours and other control sequences from Ansible's output."""
    return shown_text(text or "", LONGEST, LONGEST)


def problem_of(event: Event) -> tuple[str, str] | None:
    """Return the failed host of an event and the printable reason."""
    if event.get("event") not in ("runner_on_failed", "runner_on_unreachable"):
        return None
    data: Mapping[str, Any] = event.get("event_data", {})
    if data.get("ignore_errors"):
        return None
    result: Mapping[str, Any] = data.get("res") or {}
    unreachable = event.get("event") == "runner_on_unreachable"
    other = "cannot be reached" if unreachable else f"{data.get('task')} failed"
    host = shown(data.get("host"))
    # A refused answer is reported with the worker's name first.
    said = shown(result.get("msg") or other)
    return host, said.removeprefix(f"{host}: ")


def fact_of(event: Event, name: str) -> Any:
    """Return the fact that a task has set, if an event is about that; None otherwise."""
    if event.get("event") != "runner_on_ok":
        return None
    result: Mapping[str, Any] = event.get("event_data", {}).get("res") or {}
    return (result.get("ansible_facts") or {}).get(name)


def _beside_us() -> str:
    """Return the folder of the programs of this Python's Ansible."""
    return str(Path(sys.executable).parent)


def untemplated(name: str, value: Any) -> None:
    """Refuse a template in an extra variable, because Ansible would evaluate it here."""
    if isinstance(value, str):
        if any(begin in value for begin in ("{{", "{%", "{#")):
            said = shown(value, 120)
            raise PlayError(
                f"{name} is {said!r}, which Ansible would evaluate as a template. Rename it."
            )
    elif isinstance(value, Mapping):
        for key, one in value.items():
            untemplated(name, key)
            untemplated(f"{name}.{key}", one)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            untemplated(name, one)


@contextmanager
def ended_by_signals(interrupt: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Have SIGINT and SIGTERM end a playbook, and then do what they do without one.

    The first one interrupts Ansible, which ends its tasks and releases its lease. A second one
    kills it, as does the end of its patience; and the first one where `interrupt` finds none yet.

    Without a function that says when to end, ansible-runner installs handlers for both and leaves
    them in place: the program could never be interrupted again.
    """
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    ends: list[float] = []

    def over() -> bool:
        if not ends:
            ends.append(time.monotonic() + PATIENCE if interrupt() else 0.0)
        return len(caught) > 1 or time.monotonic() >= ends[0]

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A signal that is ignored, as by nohup, stays ignored.
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, lambda number, _frame: caught.append(number))
    try:
        yield lambda: bool(caught) and over()
    finally:
        for number in heard:
            signal.signal(number, before[number])
        if caught:
            signal.raise_signal(caught[0])


def _sent(pids: Sequence[int]) -> bool:
    """Interrupt Ansible as Ctrl-C does; return whether it runs."""
    with suppress(ProcessLookupError):
        for pid in pids:
            os.kill(pid, signal.SIGINT)
            return True
    return False


@contextmanager
def _followed(
    folder: Path, on_progress: Callable[[Event], None] | None
) -> Iterator[tuple[dict[str, str], Callable[[], None]]]:
    """Pass on what is written about the progress; yield the variable, and what begins it.

    It begins with the first event, because Ansible is forked before, and a fork of a process with
    threads may block.
    """
    if on_progress is None:
        yield {}, lambda: None
        return
    path = folder / "progress.jsonl"
    path.touch(mode=0o600)
    over = threading.Event()

    def follow() -> None:
        with path.open(encoding="utf-8") as file:
            half, last = "", False
            while not last:
                last = over.wait(0.1)
                *lines, half = f"{half}{file.read()}".split("\n")
                for line in lines:
                    on_progress(json.loads(line))

    follower = threading.Thread(target=follow, daemon=True)

    def begin() -> None:
        if follower.ident is None:
            follower.start()

    try:
        yield {VARIABLE: str(path)}, begin
    finally:
        over.set()
        begin()
        follower.join()


def play(
    playbook: str,
    on_event: Callable[[Event], None],
    limit: str | None = None,
    tags: str | None = None,
    variables: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    skip_tags: str | None = None,
    cancelled: Callable[[], bool] | None = None,
    timeout: float | None = None,
    options: Sequence[str] = (),
    on_progress: Callable[[Event], None] | None = None,
) -> int:
    """Run a playbook of the collection; every event goes to on_event. Returns the exit code.

    `options` are further ones of ansible-playbook, such as --check. What the actions report about
    their progress goes to on_progress, from another thread.

    A caller that may end it passes cancelled; otherwise SIGINT or SIGTERM ends it, and then has its
    usual effect on the caller. A limit with `NOBODY` may also name slices that do not exist
    yet.
    """
    require_fleet()
    # Imported here, because it takes more time than a command on 64 workers.
    from ansible_runner.interface import run

    pids: list[int] = []

    def handle(event: Event) -> bool:
        pids[:] = [int(event["pid"])] if event.get("pid") else pids
        follow()
        on_event(event)
        return False  # no file for each event

    with (
        nullcontext(cancelled) if cancelled else ended_by_signals(lambda: _sent(pids)) as ends,
        tempfile.TemporaryDirectory(prefix="tpu-fleet-") as private,
        _followed(Path(private), on_progress) as (told, follow),
    ):
        # How often it checks whether to end, and its time limit. It reads these
        # only from a file.
        env, variables = {**(env or {})}, {**(variables or {})}
        if limit and NOBODY in limit.split(","):
            sources = inventory_sources(os.environ, Path.cwd())
            file = Path(private) / "nobody.json"
            file.write_text(json.dumps({"ungrouped": {"hosts": {NOBODY: {}}}}), encoding="utf-8")
            env["ANSIBLE_INVENTORY"] = ",".join([*sources, str(file)])
            # The stored configuration of this fleet names its own sources.
            variables["fleet_inventory_sources"] = list(sources)
        for name, value in variables.items():
            untemplated(name, value)
        settings = {"pexpect_timeout": 1, **({"job_timeout": timeout} if timeout else {})}
        (Path(private) / "env").mkdir()
        (Path(private) / "env" / "settings").write_text(json.dumps(settings), encoding="utf-8")
        result = run(
            private_data_dir=private,
            project_dir=str(Path.cwd()),
            playbook=playbook,
            limit=limit,
            tags=tags,
            event_handler=handle,
            quiet=True,
            suppress_env_files=True,
            # ansible-runner finds ansible-playbook by PATH, where this Python's must come first.
            cmdline=" ".join(options) or None,
            envvars={
                **env,
                **told,
                # A worker's facts must not override variables of the fleet.
                "ANSIBLE_INJECT_FACT_VARS": "false",
                "PATH": f"{_beside_us()}{os.pathsep}{os.environ.get('PATH', '')}",
            },
            extravars=variables,
            skip_tags=skip_tags,
            cancel_callback=ends,
        )
    return int(result.rc)
