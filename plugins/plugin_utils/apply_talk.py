# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's end of the talk with a host that applies itself: one connection, one command.

The host's program goes over the same line where it is not there yet.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from ..module_utils._apply_agent.talk import PROTOCOL
from ..module_utils._core.worker_words import applied_word

# A host at work gives a sign of life every ten seconds. Only while it looks at itself it is silent.
SILENCE = 600.0
# However much it says: what a push asks is a look, and an apply may build environments.
LOOK_SECONDS = 600.0
APPLY_SECONDS = 3 * 3600.0
# Whoever is logged in; the program itself is of root alone. It lies there unpacked: of an archive
# Python would compile everything at each call.
_BEGIN = """
import os, sys
name = sys.argv[1]
path = "/opt/tpu-fleet/apply/agent-%s" % name
line = sys.stdin.buffer.readline()
if not os.path.isdir(path):
    import hashlib, io, shutil, zipfile
    print('{"say": "agent"}', flush=True)
    data = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
    if hashlib.sha256(data).hexdigest() != name:
        sys.exit("the program did not arrive whole: the connection was lost")
    os.umask(0o022)
    part = "%s.%d" % (path, os.getpid())
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(part)
        os.rename(part, path)
    except OSError:
        shutil.rmtree(part, True)
        if not os.path.isdir(path):
            raise
sys.path.insert(0, path)
sys.argv = [path, line.decode()]
from tpu_fleet_apply.__main__ import main
os._exit(main())
"""


class Stream(Protocol):
    """The streams of the command on the host."""

    async def readline(self) -> bytes:
        """Return a line of its output; nothing at its end."""

    async def write(self, data: bytes) -> None:
        """Send bytes to its input."""


class TalkError(Exception):
    """The host said something else than was agreed, or ended without a result."""


def command(agent: bytes, become: bool = True) -> str:
    """Write the command that is run on the host. There is nothing secret in it."""
    # Nothing but Python itself: what else is installed there is neither needed nor looked for.
    words = ["/usr/bin/python3", "-I", "-S", "-c", _BEGIN, hashlib.sha256(agent).hexdigest()]
    return shlex.join([*(["sudo", "-n"] if become else []), *words])


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
    """Ask a host for something, give it what it has not got, and return its result.

    `peers` returns what others of its slice have found out, when that is known. `elsewhere` returns
    where the host gets a file sooner, or nothing. Raises AnswerError for what nobody may say, and
    TalkError for a host that has no result after so many seconds.
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
    await stream.write(json.dumps({"protocol": PROTOCOL, **request}).encode() + b"\n")

    async def tell_peers() -> None:
        await stream.write(json.dumps(await peers()).encode() + b"\n")

    # The host goes on telling while it waits for its peers.
    telling: list[asyncio.Task[None]] = []
    asked: set[tuple[str, bool]] = set()
    once: set[str] = set()
    try:
        while line := await _line(stream):
            said = applied_word(host, line)
            what = said.pop("say")
            if what in ("agent", "peers", "serves"):
                if what in once:
                    raise TalkError(f"{host} said {what} twice")
                once.add(what)
            if what == "agent":
                await stream.write(b"%d\n%s" % (len(agent), agent))
            elif what == "need":
                for name in said["files"]:
                    if name not in files:
                        raise TalkError(f"{host} wants {name}, which nobody offered")
                    # A peer may not have it: then once more, from here.
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
    """Return the next line; a host at work gives signs of life."""
    try:
        async with asyncio.timeout(SILENCE):
            return await stream.readline()
    except TimeoutError:
        raise TalkError(f"the host said nothing for {SILENCE:g} s") from None
    except ValueError:
        raise TalkError("the host said a line that is too long") from None
