"""Ask the workers in parallel, each over one connection."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import group_name
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import LocalTrouble
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import (
    Settings,
    fan_out,
    make_room,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from .. import on_worker
from ..workers.ask.worker_program import program
from .hosts import HostSeen, host_of

PROGRAM = program(*on_worker.PAST).encode()
COMMAND = "exec sudo -n /usr/bin/python3 -I -"
SECONDS = 30.0
KEPT = 1 << 21


def ask(
    book: Fleet, slices: Sequence[str], places: Mapping[str, Any]
) -> Mapping[str, Mapping[str, HostSeen]]:
    """Return the answer of each worker of these slices, by slice and host.

    `places` has for each worker how far the past of its runs is known.
    """
    of: dict[str, str] = {}
    for name in slices:
        for host in book.groups.get(group_name("tpu_slice", name), ()):
            if host in book.targets:
                of[host] = name
    make_room(len(of))
    answers = asyncio.run(_ask([book.targets[host] for host in of], places))
    found: dict[str, dict[str, HostSeen]] = {}
    for host, name in of.items():
        found.setdefault(name, {})[host] = answers[host]
    return found


async def _ask(targets: Sequence[Target], places: Mapping[str, Any]) -> dict[str, HostSeen]:
    answers = {}
    settings = Settings(timeout=SECONDS, keep=KEPT)

    def command(target: Target) -> str:
        order = json.dumps({"places": places.get(target.name, {})})
        return f"{COMMAND} {shlex.quote(order)}"

    try:
        async with aclosing(fan_out(targets, command, stdin=PROGRAM, settings=settings)) as results:
            async for result in results:
                if result.ok:
                    answers[result.name] = host_of(result.name, result.stdout)
                else:
                    said = shown(
                        result.says or result.stderr.decode(errors="replace").strip()[-200:]
                    )
                    answers[result.name] = HostSeen(reached=False, says=said)
    except LocalTrouble as trouble:
        return {target.name: HostSeen(reached=False, says=trouble.says) for target in targets}
    return answers
