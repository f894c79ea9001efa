# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command on many hosts at once: one process, one connection and one command for each host.

    async for result in fan_out(targets, "hostname"):
        ...

Every host gets exactly one result, as soon as it is known. No host waits for a slow one: an attempt
that does not get ahead gives its place to the next. Nothing here needs Ansible.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import ctypes.util
import os
import random
import resource
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from ...module_utils._core.answer import AnswerError
from ...module_utils._inventory.connections import CHEAP_KEX
from .failures import (
    BEGUN,
    ConnectionProgress,
    Failure,
    Kind,
    LocalTrouble,
    failure_of,
)
from .targets import Target

_CERTIFICATES = "asyncssh.crypto.x509"


@contextlib.contextmanager
def _what_is_used() -> Iterator[None]:
    """Have asyncssh import what is used here alone, in two thirds of the time.

    It would start compiler and linker six times to find libraries of C, for UMAC and for sntrup761
    without mlkem768; and certificates of X.509 are trusted for no host.
    """
    found = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None
    sys.modules.setdefault(_CERTIFICATES, None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        ctypes.util.find_library = found
        if sys.modules[_CERTIFICATES] is None:
            del sys.modules[_CERTIFICATES]


# A call of fan_out without it raises LocalTrouble.
try:
    with _what_is_used():
        import asyncssh

    HAS_ASYNCSSH = True
except ImportError:
    HAS_ASYNCSSH = False

if TYPE_CHECKING or HAS_ASYNCSSH:
    _ClientBase = asyncssh.SSHClient
    _SessionBase = asyncssh.SSHClientSession[bytes]
else:
    _ClientBase = _SessionBase = object

Kex = Literal["default", "cheap"]

# The processor does AES by itself; without a separate MAC, as OpenSSH has them from 2014 on.
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com")
LAST_WORDS = 30.0
"""How many seconds a command may take to end after a dialogue with it."""
GOODBYE = 2.0
"""How many seconds to wait for a host to take note that we are done."""


@dataclass(frozen=True)
class Settings:
    """The limits of the calls. The defaults are for a laptop and 1,000 hosts."""

    connects: int = 64
    """Attempts to connect at once. Hosts that run their command do not count."""
    connects_per_second: float = 250.0
    """First contacts are spread over time; one host costs about as much CPU as this leaves it."""
    patience: float = 3.0
    """After so many seconds an attempt does not count any more: dead hosts delay no others."""
    connect_timeout: float = 15.0
    """Until the login is done."""
    timeout: float | None = None
    """For a host, from its first packet until its command has ended."""
    silence: float | None = None
    """For a host whose command neither says nor takes anything."""
    kex: Kex | None = None
    """default: post-quantum where the host can (OpenSSH 9.9 and later), else curve25519.
    cheap: curve25519 always. None: as the target says."""
    keepalive: float = 15.0
    """Seconds between signs of life; after three without an answer a host counts as lost."""
    keep: int = 1 << 20
    """Bytes of each stream that are kept in a result."""


@dataclass(frozen=True)
class Result:
    """What became of one host."""

    name: str
    kind: Kind
    exit_status: int | None = None
    """Of the command; 128 and the signal's number if it died of one. None if it did not end."""
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    """There was more output than was kept."""
    says: str = ""
    remedy: str = ""
    value: Any = None
    """What the dialogue returned."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether the command ended well."""
        return self.kind is Kind.DONE and self.exit_status == 0 and not self.says

    @property
    def begun(self) -> bool:
        """Return whether the command may have been started."""
        return self.kind in BEGUN


OnOutput = Callable[[str, str, bytes], None]
"""Gets host, "stdout" or "stderr", and bytes as they come."""


class Channel:
    """The command's streams, for a dialogue with it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._chan: asyncssh.SSHClientChannel[bytes] | None = None
        self._reader = asyncio.StreamReader(limit=1 << 18)
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False

    async def read(self, most: int = 1 << 16) -> bytes:
        """Return what there is of its output; nothing at the end."""
        return await self._reader.read(most)

    async def readline(self) -> bytes:
        """Return a line of its output."""
        return await self._reader.readline()

    async def readexactly(self, count: int) -> bytes:
        """Return so many bytes of its output; raises IncompleteReadError."""
        return await self._reader.readexactly(count)

    async def write(self, data: bytes) -> None:
        """Send bytes to its input; waits when the host takes them slower than they come."""
        await self._writable.wait()
        if self._ended or self._chan is None:
            raise BrokenPipeError("the command takes no more input")
        self._chan.write(data)

    def _let_go(self) -> None:
        """Let go of the output: the reader may have stopped it."""
        self._reader.feed_eof()
        if self._chan is not None and not self._ended:
            self._chan.resume_reading()

    def write_eof(self) -> None:
        """Say that this was all."""
        if self._chan is not None and not self._ended:
            self._chan.write_eof()


Talk = Callable[[Channel], Awaitable[Any]]
"""A dialogue with the command. Its result is the value of the host's result."""


class _Session(_SessionBase):
    """Collects what a command says."""

    def __init__(self, host: _Host) -> None:
        self._host = host
        self.kept: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False
        self.status: int | None = None
        self.signal = ""
        self.lost: Exception | None = None
        self.over = asyncio.Event()

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        channel = self._host.channel
        channel._chan = chan
        # It has the two methods of a transport that a reader uses: pause and resume.
        channel._reader.set_transport(chan)  # type: ignore[arg-type]

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._host.heard()
        stream = "stdout" if datatype is None else "stderr"
        if self._host.on_output:
            self._host.on_output(self._host.target.name, stream, data)
        if stream == "stdout" and self._host.talking:
            self._host.channel._reader.feed_data(data)
            return
        kept = self.kept[stream]
        room = self._host.settings.keep - len(kept)
        kept += data[: max(0, room)]
        self.truncated = self.truncated or len(data) > room

    def eof_received(self) -> bool:
        self._host.channel._reader.feed_eof()
        # Its input stays open: the command may watch for its end to know that we are gone.
        return True

    def pause_writing(self) -> None:
        self._host.channel._writable.clear()

    def resume_writing(self) -> None:
        self._host.heard()
        self._host.channel._writable.set()

    def exit_status_received(self, status: int) -> None:
        self.status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self.signal = signal

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc
        channel = self._host.channel
        channel._ended = True
        channel._writable.set()
        channel._reader.feed_eof()
        self.over.set()


class _Client(_ClientBase):
    """Notes how far a connection comes, and whom to trust at the first contact."""

    def __init__(self, host: _Host) -> None:
        self._host = host

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._host.conn = conn

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        target = self._host.target
        if not target.accept_new or self._host.trust.knows(target):
            return False
        self._host.trust.add(target, key)
        return True


class _Trust:
    """The known keys of hosts; each file is read once, each key when its host is asked."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[dict[str, list[str]], list[str]]] = {}

    def keys(self, target: Target) -> Any:
        lines: list[str] = []
        for path in target.known_hosts:
            named, others = self._read(path)
            lines += named.get(target.key_name, [])
            lines += others
        hosts = asyncssh.import_known_hosts("\n".join(lines))
        # By name alone, never by address: addresses move between machines.
        return hosts.match(target.key_name, "", None)

    def knows(self, target: Target) -> bool:
        return any(self.keys(target)[:2])

    def add(self, target: Target, key: asyncssh.SSHKey) -> None:
        line = f"{target.key_name} {key.export_public_key().decode().strip()}"
        if target.known_hosts:
            path = Path(target.known_hosts[0])
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(path, "a", encoding="utf-8") as stream:
                stream.write(f"{line}\n")
            self._read(target.known_hosts[0])[0].setdefault(target.key_name, []).append(line)

    def _read(self, path: str) -> tuple[dict[str, list[str]], list[str]]:
        if path not in self._files:
            named: dict[str, list[str]] = {}
            others = []
            try:
                text = Path(path).read_text(encoding="utf-8")
            except FileNotFoundError:
                text = ""
            except OSError as error:
                raise LocalTrouble(
                    f"{path} cannot be read: {error.strerror}", f"Allow it: chmod u+r {path}"
                ) from error
            for line in text.splitlines():
                name = line.split(maxsplit=1)[0] if line.strip() else "#"
                if name.startswith("#"):
                    continue
                if set(name) & set("*?|!@,"):
                    others.append(line)
                else:
                    named.setdefault(name, []).append(line)
            self._files[path] = named, others
        return self._files[path]


class _Keys:
    """Our own keys: each file is read once, one agent is asked once."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], list[Any] | LocalTrouble] = {}
        self._lock = asyncio.Lock()
        self._agents: list[asyncssh.SSHAgentClient] = []

    async def of(self, target: Target) -> list[Any]:
        identity = (target.identity_files, target.identities_only, target.identity_agent)
        async with self._lock:
            if identity not in self._found:
                try:
                    self._found[identity] = await self._look(target)
                except LocalTrouble as trouble:
                    self._found[identity] = trouble
        found = self._found[identity]
        if isinstance(found, LocalTrouble):
            raise found
        # A key pair notes the algorithm that its connection agreed on.
        return [copy.copy(key) for key in found]

    def close(self) -> None:
        for agent in self._agents:
            agent.close()

    async def _look(self, target: Target) -> list[Any]:
        keys: list[Any] = []
        problems = []
        for path in target.identity_files:
            try:
                keys.append(asyncssh.read_private_key(path))
            except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
                locked = "assphrase" in str(error)
                problems.append(f"{path} {'is encrypted' if locked else f'is no key: {error}'}")
            except OSError as error:
                problems.append(f"{path} cannot be read: {error.strerror}")
        if keys:
            return keys
        keys = await self._of_agent(target)
        if keys:
            return keys
        if problems:
            first = target.identity_files[0]
            raise LocalTrouble(
                f"{'; '.join(problems)}, and no ssh-agent holds it", f"ssh-add {first}"
            )
        raise LocalTrouble(
            "no key is named to log in with, and no ssh-agent holds one",
            "Write IdentityFile into the ssh configuration, or ssh-add a key.",
        )

    async def _of_agent(self, target: Target) -> list[Any]:
        path = target.identity_agent
        path = os.environ.get("SSH_AUTH_SOCK", "") if path == "SSH_AUTH_SOCK" else path
        if path in ("", "none"):
            return []
        try:
            agent = await asyncssh.connect_agent(path)
        except OSError:
            return []
        if agent is None:
            return []
        self._agents.append(agent)
        held = list(await agent.get_keys())
        wanted = set()
        for file in target.identity_files:
            with contextlib.suppress(OSError, asyncssh.KeyImportError):
                wanted.add(asyncssh.read_public_key(f"{file}.pub").public_data)
        ours = [key for key in held if key.public_data in wanted]
        if ours or target.identities_only:
            return ours
        return held


@dataclass
class _Places:
    """How many attempts there may be at once."""

    count: int
    free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.free = asyncio.Semaphore(self.count)

    @contextlib.asynccontextmanager
    async def one(self, patience: float) -> AsyncIterator[None]:
        """Hold a place, for at most so many seconds."""
        await self.free.acquire()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self.free.release()

        timer = asyncio.get_running_loop().call_later(patience, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()


@dataclass
class _Host:
    """One host of a fan-out."""

    target: Target
    command: str | Callable[[Target], str]
    stdin: bytes | None
    talk: Talk | None
    on_output: OnOutput | None
    settings: Settings
    trust: _Trust
    keys: _Keys
    places: _Places
    channel: Channel = field(init=False)
    conn: asyncssh.SSHClientConnection | None = None
    session: _Session | None = None
    begun: bool = False
    talking: bool = False
    value: Any = None
    proxy: asyncio.subprocess.Process | None = None
    proxy_said: IO[bytes] | None = None
    began_at: float = 0.0
    quiet: asyncio.Timeout | None = None

    def __post_init__(self) -> None:
        self.channel = Channel(self.target)
        self.talking = self.talk is not None

    async def run(self, start_after: float) -> Result:
        """Connect, run the command; whatever happens is a result."""
        if start_after > 0:
            await asyncio.sleep(start_after)
        self.began_at = time.monotonic()
        trouble: BaseException | None = None
        try:
            async with self.places.one(self.settings.patience):
                self.began_at = time.monotonic()
                deadline = (
                    None if self.settings.timeout is None else self.began_at + self.settings.timeout
                )
                conn = await self._connect(deadline)
            async with (
                asyncio.timeout(_left(deadline)),
                asyncio.timeout(self.settings.silence) as self.quiet,
            ):
                await self._work(conn)
        # Also the unexpected is the result of this host, and of no other.
        except Exception as error:
            trouble = error
        return self._result(trouble)

    def heard(self) -> None:
        """Note that the host does something: the silence begins again."""
        silence = self.settings.silence
        if self.quiet is not None and silence is not None:
            # It may be over just now.
            with contextlib.suppress(RuntimeError):
                self.quiet.reschedule(asyncio.get_running_loop().time() + silence)

    async def close(self) -> None:
        """Say goodbye; do not wait for ever."""
        if self.conn is not None:
            self.conn.close()
            try:
                async with asyncio.timeout(GOODBYE):
                    await self.conn.wait_closed()
            except TimeoutError:
                self.conn.abort()
        if self.proxy is not None and self.proxy.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.proxy.terminate()
            await self.proxy.wait()
        if self.proxy_said is not None:
            self.proxy_said.close()

    async def _connect(self, deadline: float | None) -> asyncssh.SSHClientConnection:
        limit = self.settings.connect_timeout
        if deadline is not None:
            limit = min(limit, max(0.0, deadline - time.monotonic()))
        async with asyncio.timeout(limit):
            keys = await self.keys.of(self.target)
            known = self.trust.keys(self.target)
            sock = await self._proxy() if self.target.proxy_command else None
            return await asyncssh.connect(
                # With a socket of a proxy, only a name.
                self.target.address,
                self.target.port,
                sock=sock,
                # Everything is said here: no file of the person changes what we do.
                config=None,
                client_factory=lambda: _Client(self),
                username=self.target.user,
                client_keys=keys,
                agent_path=None,
                known_hosts=lambda _host, _addr, _port: known,
                host_key_alias=self.target.key_name,
                x509_trusted_certs=None,
                x509_trusted_cert_paths=[],
                kex_algs=CHEAP_KEX if self._is_cheap() else (),
                encryption_algs=CIPHERS,
                compression_algs=None,
                password_auth=False,
                kbdint_auth=False,
                host_based_auth=False,
                gss_kex=False,
                gss_auth=False,
                connect_timeout=None,
                login_timeout=0,
                keepalive_interval=self.settings.keepalive,
                encoding=None,
            )

    def _is_cheap(self) -> bool:
        kex = self.settings.kex
        return self.target.cheap_kex if kex is None else kex == "cheap"

    async def _proxy(self) -> socket.socket:
        """Start the proxy command as ssh does; keep what it says apart."""
        ours, theirs = socket.socketpair()
        self.proxy_said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self.proxy = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                f"exec {self.target.proxy_command}",
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self.proxy_said,
                start_new_session=True,
            )
        finally:
            theirs.close()
        ours.setblocking(False)
        return ours

    async def _work(self, conn: asyncssh.SSHClientConnection) -> None:
        line = self.command if isinstance(self.command, str) else self.command(self.target)
        self.begun = True
        session = _Session(self)
        await conn.create_session(lambda: session, line, encoding=None)
        self.session = session
        if self.stdin is not None:
            for at in range(0, len(self.stdin), 1 << 16):
                try:
                    await self.channel.write(self.stdin[at : at + (1 << 16)])
                except BrokenPipeError:
                    # It ended without reading everything, as it may; its exit status shows that.
                    break
            self.channel.write_eof()
        if self.talk is not None:
            try:
                self.value = await self.talk(self.channel)
            except Exception:
                await self._hear_why(session)
                raise
            finally:
                # What it says after the dialogue is dropped; it must not block it either.
                self.talking = False
                self.channel._let_go()
            self.channel.write_eof()
            # All is said. A command that does not end now never may.
            async with asyncio.timeout(LAST_WORDS):
                await session.over.wait()
        await session.over.wait()

    async def _hear_why(self, session: _Session) -> None:
        """Wait for the end of a command whose output has ended: its exit status comes after it."""
        if self.channel._reader.at_eof():
            self.channel._let_go()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await session.over.wait()

    def _result(self, trouble: BaseException | None) -> Result:
        session = self.session
        seconds = time.monotonic() - self.began_at
        kept = session.kept if session else {"stdout": b"", "stderr": b""}
        common: dict[str, Any] = {
            "name": self.target.name,
            "stdout": bytes(kept["stdout"]),
            "stderr": bytes(kept["stderr"]),
            "truncated": bool(session and session.truncated),
            "value": self.value,
            "seconds": seconds,
        }
        if isinstance(trouble, AnswerError):
            return Result(kind=Kind.DONE, says=trouble.says, remedy=trouble.remedy, **common)
        status = exit_status(session.status, session.signal) if session else None
        if status is not None and not isinstance(trouble, TimeoutError):
            # That the dialogue broke is what came of a command that failed, not the reason.
            says = "" if trouble is None or status else f"{type(trouble).__name__}: {trouble}"
            return Result(kind=Kind.DONE, exit_status=status, says=says, **common)
        if trouble is None or (session and session.lost and not isinstance(trouble, TimeoutError)):
            trouble = (session.lost if session else None) or ConnectionResetError(
                "the host closed the channel"
            )
        elif self._is_ours(trouble):
            expected = isinstance(trouble, (OSError, ValueError))
            says = str(trouble) if expected else f"{type(trouble).__name__}: {trouble}"
            trouble = LocalTrouble(says, "")
        found = self._failure(trouble, seconds)
        return Result(kind=found.kind, says=found.says, remedy=found.remedy, **common)

    def _is_ours(self, trouble: BaseException) -> bool:
        """Return whether the dialogue failed on this side, with the connection as good as ever."""
        return (
            self.talk is not None
            and self.session is not None
            and not self.session.over.is_set()
            and not isinstance(trouble, (TimeoutError, asyncssh.Error, LocalTrouble))
        )

    def _failure(self, trouble: BaseException, seconds: float) -> Failure:
        conn = self.conn
        said = ""
        if self.proxy_said is not None:
            self.proxy_said.seek(0)
            said = " ".join(self.proxy_said.read(4096).decode("utf-8", "replace").split())
        try:
            known = self.trust.knows(self.target)
        except (LocalTrouble, ValueError):
            known = False
        return failure_of(
            trouble,
            ConnectionProgress(
                address=self.target.address,
                user=self.target.user,
                key_name=self.target.key_name,
                key_known=known,
                connected=conn is not None,
                greeted=conn is not None and bool(conn.get_extra_info("server_version")),
                begun=self.begun and not isinstance(trouble, asyncssh.ChannelOpenError),
                waited=seconds,
                keys=", ".join(self.target.identity_files),
                proxy=bool(self.target.proxy_command),
                proxy_said=said,
            ),
        )


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "USR1": 10}
SIGNALS.update({"SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15})


def exit_status(status: int | None, signal: str) -> int | None:
    """Write a signal as a shell does."""
    return 128 + SIGNALS.get(signal, 0) if signal else status


def start_times(count: int, per_second: float, jitter: Callable[[], float]) -> Iterator[float]:
    """Say when each host is first called: in order, at a rate, never two at once for long."""
    at = 0.0
    for _number in range(count):
        yield at
        at += (0.5 + jitter()) / per_second


def make_room(hosts: int) -> int:
    """Raise the soft limit of open files for so many connections; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A connection is one; a proxy, files and spools are more.
    wanted = 4 * hosts + 256
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return soft


async def fan_out(
    targets: Iterable[Target],
    command: str | Callable[[Target], str],
    *,
    stdin: bytes | None = None,
    talk: Talk | None = None,
    on_output: OnOutput | None = None,
    settings: Settings | None = None,
) -> AsyncGenerator[Result, None]:
    """Run a command on all targets at once; yield a result of each as it comes.

    The command's input is stdin and then its end; or what talk writes; or, without both, nothing,
    and it stays open until we are gone. A caller that stops, or is cancelled, ends all
    connections. Raises LocalTrouble if asyncssh is not installed, ValueError for two hosts of one
    name.
    """
    if not HAS_ASYNCSSH:
        raise LocalTrouble("asyncssh is not installed beside Ansible", "pip install asyncssh")
    if stdin is not None and talk is not None:
        raise ValueError("say stdin or talk, not both")
    hosts = list(targets)
    _check_names(hosts)
    settings = settings or Settings()
    trust, keys, places = _Trust(), _Keys(), _Places(max(1, settings.connects))
    results: asyncio.Queue[Result] = asyncio.Queue()

    async def one(target: Target, start: float) -> None:
        host = _Host(target, command, stdin, talk, on_output, settings, trust, keys, places)
        try:
            results.put_nowait(await host.run(start))
        # Our own mistakes are no reason to wait for a result that never comes.
        except Exception as error:
            says = f"{type(error).__name__}: {error}"
            results.put_nowait(Result(target.name, Kind.LOCAL, says=says))
        finally:
            await host.close()

    starts = start_times(len(hosts), settings.connects_per_second, random.random)
    tasks = [asyncio.create_task(one(*pair)) for pair in zip(hosts, starts, strict=True)]
    try:
        for _host in hosts:
            yield await results.get()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        keys.close()


def _check_names(hosts: Sequence[Target]) -> None:
    twice = [name for name, count in Counter(host.name for host in hosts).items() if count > 1]
    if twice:
        raise ValueError(f"named twice: {', '.join(sorted(twice))}")
