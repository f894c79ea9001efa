"""Whether a command may be about submitted runs; only then is Ansible imported, which is slow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..workers.inventory.ansible_config import inventory_sources

MOST_READ = 1 << 20
"""Bytes of a file of variables that are searched."""


def mentions_queue() -> bool:
    """Say whether the fleet file of this folder may declare a queue."""
    sources = map(Path, inventory_sources(os.environ, Path.cwd()))
    folders = [one if one.is_dir() else one.parent for one in sources]
    files = (path for folder in folders for path in folder.glob("group_vars/**/*"))
    return any(
        path.stat().st_size <= MOST_READ and b"fleet_queue" in path.read_bytes()
        for path in files
        if path.is_file()
    )


def archive_of(run: str) -> str:
    """Return where a submitted run has its archive; empty if there is none. ClickException."""
    if not mentions_queue():
        return ""
    from . import queued

    return queued.archive_of(run)


def said_of(run: str) -> str:
    """Return what the queue says of a run, as `lr-2 is waiting: second in turn`; empty if nothing.

    Raises ClickException.
    """
    if not mentions_queue():
        return ""
    from . import queued

    return queued.said_of(run)


def declared_of(runs: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what was submitted of runs, by `slice/run`, as history.declared has it.

    Raises ClickException.
    """
    if not mentions_queue():
        return {}
    from . import queued

    return queued.declared_of(runs)


def slice_of(run: str, before: str = "") -> str:
    """Return the slice on which a submitted run goes on; wait for it while the run waits.

    `before` is the slice on which it was. Empty: no run of this name is submitted, or it has ended.
    Raises ClickException.
    """
    if not mentions_queue():
        return ""
    from . import queued_wait

    return queued_wait.slice_of(run, before)


def show_queue(wanted: Sequence[str], as_json: bool) -> int:
    """Print the queue, or these runs of it; return the exit code."""
    from . import queued

    return queued.show_queue(wanted, as_json)


def with_submitted(
    verb: str,
    wanted: Sequence[str],
    as_json: bool,
    seconds: float | None,
    others: Callable[[Sequence[str]], int],
) -> int:
    """Do something to the submitted runs of those that are named; `others` does it to the rest.

    Returns the exit code.
    """
    if not mentions_queue():
        return others(wanted)
    from . import queued

    return queued.with_submitted(verb, wanted, as_json, seconds, others)
