"""Stop runs on their workers, with a mark that keeps them stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import group_name
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import LocalTrouble
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Settings,
    fan_out,
    make_room,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from ..workers.ask.worker_program import verb_commands

LOG = logging.getLogger("tpu-fleet-watch")
SECONDS = 60.0
"""The time limit of a worker, which waits for no run."""


def halt(book: Fleet, runs: Mapping[str, Sequence[str]], by: str) -> dict[str, str]:
    """Stop the runs of slices on all their workers; return which workers failed, and why."""
    of: dict[str, Sequence[str]] = {}
    for name, names in runs.items():
        for host in book.groups.get(group_name("tpu_slice", name), ()):
            if host in book.targets:
                of[host] = names
    if not of:
        return {}
    make_room(len(of))
    return asyncio.run(_halt([book.targets[host] for host in of], of, by))


async def _halt(
    targets: Sequence[Target], runs: Mapping[str, Sequence[str]], by: str
) -> dict[str, str]:
    failures = {}
    command = verb_commands("stop", runs, by)
    try:
        settings = Settings(timeout=SECONDS)
        async with aclosing(fan_out(targets, command, settings=settings)) as results:
            async for result in results:
                said = result.stderr.decode(errors="replace").strip()
                if not result.ok or said:
                    failures[result.name] = shown(result.says or said[-200:] or "it failed")
    except LocalTrouble as trouble:
        return {target.name: trouble.says for target in targets}
    return failures
