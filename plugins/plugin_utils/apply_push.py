# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask many hosts what a push has to do on them, and tell them afterwards what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from ..module_utils._core.worker_words import shown
from .apply_run import Heard
from .apply_talk import LOOK_SECONDS, command, talk
from .fan_out import Channel, Settings, fan_out, make_room
from .ssh_targets import Target


@dataclass(frozen=True)
class Answer:
    """What one host said."""

    host: str
    # What it has to do there, and why; everything where the host did not answer.
    roles: Sequence[str]
    reasons: Sequence[str]
    answered: bool


async def ask(
    targets: Sequence[Target],
    requests: Mapping[str, Mapping[str, Any]],
    agent: bytes,
    heard: Heard,
    settings: Settings,
) -> dict[str, Answer]:
    """Send every host its request, over one connection; a host that is away answers nothing."""

    def line(target: Target) -> str:
        return command(agent, become=target.user != "root")

    async def ours(channel: Channel) -> dict[str, Any]:
        host = channel.target.name
        return await talk(
            channel,
            requests[host],
            {},
            agent,
            lambda said: heard(host, said),
            _no_peers,
            host=host,
            seconds=LOOK_SECONDS,
        )

    make_room(len(targets))
    answers = {}
    async with aclosing(fan_out(targets, line, talk=ours, settings=settings)) as stream:
        async for result in stream:
            value = result.value if isinstance(result.value, dict) else {}
            said = shown(value.get("problem") or result.says or "it did not answer")
            answers[result.name] = (
                Answer(result.name, value.get("roles", ()), value.get("reasons", ()), True)
                if value.get("status") == "ok"
                else Answer(result.name, (), [str(said)], False)
            )
    return answers


async def _no_peers() -> dict[str, Any]:
    return {}


def to_push(
    answers: Mapping[str, Answer], slices: Mapping[str, str], roles: Sequence[str]
) -> dict[str, list[str]]:
    """Return which of the roles to apply on each host.

    The workers of a slice agree on packages and commits in the play: what one of them has to do is
    done by all. A host that did not answer may have everything to do.
    """
    wanted: dict[str, set[str]] = {name: set() for name in slices.values()}
    for host, answer in answers.items():
        wanted[slices[host]].update(answer.roles if answer.answered else roles)
    return {host: [role for role in roles if role in wanted[slices[host]]] for host in slices}
