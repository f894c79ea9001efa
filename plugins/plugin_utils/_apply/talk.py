# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of a call: one connection, one command.

If the host does not have the agent, it is sent over the same connection first.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from ...module_utils._apply_agent.talk import PROTOCOL
from ...module_utils._apply_agent.wish import digest
from ...module_utils._core.worker_words import applied_word
from .._ssh import program

# A host at work sends a message every ten seconds; it is silent only while it reads its state.
SILENCE = 600.0
# Limit of a whole call, which may build environments.
APPLY_SECONDS = 3 * 3600.0
_START = """
sys.argv = [path, line.decode()]
from tpu_fleet_apply.glance import answer
known = answer(path, line)
if known:
    os.write(1, known)
    os._exit(0)
from tpu_fleet_apply.program import main
os._exit(main())
"""


class Stream(Protocol):
    """The input and output of the command on the host."""

    async def readline(self) -> bytes:
        """Return a line of its output; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes to its input."""


class TalkError(Exception):
    """The host broke the protocol, or ended without a result."""


def command(agent: bytes, become: bool = True) -> str:
    """Return the command for the host."""
    return program.command("agent", agent, _START, become)


async def talk(
    stream: Stream,
    request: Mapping[str, Any],
    files: Mapping[str, bytes],
    agent: bytes,
    heard: Callable[[dict[str, Any]], None],
    peers: Callable[[], Awaitable[Mapping[str, Any]]],
    elsewhere: Callable[[str], Awaitable[str]] | None = None,
    host: str = "the host",
    seconds: float = APPLY_SECONDS,
) -> dict[str, Any]:
    """Ask a host to apply a wish, send what it asks for, and return its result.

    `peers` returns what others of its slice found out, once that is known. `elsewhere` returns a
    URL from which the host gets a file faster, or an empty text. Raise AnswerError for an invalid
    message, and TalkError if the host has no result after `seconds`.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await _talk(stream, request, files, agent, heard, peers, elsewhere, host)
    except TimeoutError:
        if not limit.expired():
            raise
        raise TalkError(f"{host} had no result after {seconds:g} s") from None


async def _talk(
    stream: Stream,
    request: Mapping[str, Any],
    files: Mapping[str, bytes],
    agent: bytes,
    heard: Callable[[dict[str, Any]], None],
    peers: Callable[[], Awaitable[Mapping[str, Any]]],
    elsewhere: Callable[[str], Awaitable[str]] | None,
    host: str,
) -> dict[str, Any]:
    # First, what a host compares before it reads anything else: the same is answered alike.
    same = {"asks": digest(request)} if not request.get("serve") else {}
    whole = {**same, "protocol": PROTOCOL, **request}
    await stream.write(json.dumps(whole).encode() + b"\n")

    async def tell_peers() -> None:
        await stream.write(json.dumps(await peers()).encode() + b"\n")

    # A task, because the host continues to send messages while it waits for its peers.
    telling: list[asyncio.Task[None]] = []
    asked: set[tuple[str, bool]] = set()
    once: set[str] = set()
    try:
        while line := await _line(stream):
            said = applied_word(host, line)
            what = said.pop("say")
            if what in ("program", "peers", "serves"):
                if what in once:
                    raise TalkError(f"{host} said {what} twice")
                once.add(what)
            if what == "program":
                await stream.write(program.sent(agent))
            elif what == "need":
                for name in said["files"]:
                    if name not in files:
                        raise TalkError(f"{host} asks for {name}, which was not offered")
                    # A peer may not have it; the second time, the controller sends it.
                    if (name, said["direct"]) in asked:
                        raise TalkError(f"{host} wants {name} again")
                    asked.add((name, said["direct"]))
                    nearer = not said["direct"] and elsewhere and await elsewhere(name)
                    if nearer:
                        await stream.write(f"from {name} {nearer}\n".encode())
                        continue
                    await stream.write(b"file %s %d\n" % (name.encode(), len(files[name])))
                    await stream.write(files[name])
            elif what == "peers":
                telling.append(asyncio.create_task(tell_peers()))
            elif what == "result":
                return said
            else:
                heard({"say": what, **said})
        raise TalkError("the host ended without a result")
    finally:
        for task in telling:
            task.cancel()
        await asyncio.gather(*telling, return_exceptions=True)


async def _line(stream: Stream) -> bytes:
    """Return the next line; a host at work is never silent for long."""
    try:
        async with asyncio.timeout(SILENCE):
            return await stream.readline()
    except TimeoutError:
        raise TalkError(f"the host sent nothing for {SILENCE:g} s") from None
    except ValueError:
        raise TalkError("the host sent a line that is too long") from None
