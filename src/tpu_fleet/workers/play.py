"""Run the collection's playbooks through ansible-runner, in the current folder."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import shown

from .inventory.ansible_config import inventory_sources
from .inventory.read import PlayError, require_fleet

# A host in no group of the fleet. Ansible refuses a limit that leaves only localhost although there
# are other hosts, which happens for a slice that does not exist yet.
NOBODY = "tpu-fleet-nobody"
Event = Mapping[str, Any]


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
def ended_by_signals() -> Iterator[Callable[[], bool]]:
    """Have SIGINT and SIGTERM end a playbook, and then do what they do without one.

    Without a function that says when to end, ansible-runner installs handlers for both and leaves
    them in place: the program could never be interrupted again.
    """
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A signal that is ignored, as by nohup, stays ignored.
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, lambda number, _frame: caught.append(number))
    try:
        yield lambda: bool(caught)
    finally:
        for number in heard:
            signal.signal(number, before[number])
        if caught:
            signal.raise_signal(caught[0])


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
) -> int:
    """Run a playbook of the collection; every event goes to on_event. Returns the exit code.

    A caller that may end it passes cancelled; otherwise SIGINT or SIGTERM ends it, and then has its
    usual effect on the caller. A limit with `NOBODY` may also name slices that do not exist
    yet.
    """
    require_fleet()
    # Imported here, because it takes more time than a command on 64 workers.
    from ansible_runner.interface import run

    def handle(event: Event) -> bool:
        on_event(event)
        return False  # no file for each event

    with (
        nullcontext(cancelled) if cancelled else ended_by_signals() as ends,
        tempfile.TemporaryDirectory(prefix="tpu-fleet-") as private,
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
            envvars={
                **env,
                # A worker's facts must not override variables of the fleet.
                "ANSIBLE_INJECT_FACT_VARS": "false",
                "PATH": f"{_beside_us()}{os.pathsep}{os.environ.get('PATH', '')}",
            },
            extravars=variables,
            skip_tags=skip_tags,
            cancel_callback=ends,
        )
    return int(result.rc)
