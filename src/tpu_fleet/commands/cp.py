"""`tpu-fleet cp`: copy files and folders to many workers, or from them, in parallel."""

from __future__ import annotations

import re
import shlex
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.folders import is_folder
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Channel, Result, Talk

from ..show.output import Complaints
from ..workers.ask.on_all import Job
from ..workers.copy.tar import (
    PACK,
    UNPACK,
    CopyError,
    Piece,
    bring_in,
    chunks_of,
    make_half,
    pieces_of,
    unpack,
)
from .many import Many, options_of_many, run_job
from .options import unwritable

CHANGED_WHILE_READ = 1
"""Exit status of tar when a file grew while it was read, as logs do; the archive is complete."""


@dataclass(frozen=True)
class CopyPlace:
    """One side of a copy: here, on all workers, or on one."""

    path: str
    remote: bool = False
    host: str = ""


def place_of(text: str) -> CopyPlace:
    """Parse :path, HOST:path or path; ./a:b is a local file."""
    match = re.fullmatch(r"([A-Za-z0-9._\[\],-]*):(.*)", text, re.DOTALL)
    if match:
        return CopyPlace(match[2], remote=True, host=match[1])
    return CopyPlace(text)


@dataclass(frozen=True)
class Copy:
    """Sources and target of a copy."""

    up: bool
    sources: tuple[CopyPlace, ...]
    target: CopyPlace

    @property
    def host(self) -> str:
        """The named worker, if any."""
        return self.target.host if self.up else self.sources[0].host


def plan(words: Sequence[str]) -> Copy:
    """Parse the command's arguments."""
    *sources, target = map(place_of, words)
    if not sources:
        raise CopyError("say what to copy, and where to: tpu-fleet cp file :/tmp")
    remote = {source.remote for source in sources}
    if len(remote) > 1 or remote == {target.remote}:
        raise CopyError(
            "one side must be local and one on the workers, whose paths begin with a colon"
        )
    if target.remote:
        return Copy(True, tuple(sources), target)
    if len(sources) > 1:
        raise CopyError("only one path of the workers can be copied at a time")
    return Copy(False, tuple(sources), target)


def unpack_command(target: str, names: Sequence[str], sudo: bool) -> str:
    """Return the command that unpacks an archive on a worker."""
    before = ["sudo", "-n", "-H", "--"] if sudo else []
    words = [*before, "/bin/sh", "-c", UNPACK, "tpu-fleet", target, "\n".join(names)]
    return f"exec {shlex.join(words)}"


def pack_command(path: str, sudo: bool) -> str:
    """Return the command that creates an archive on a worker."""
    before = ["sudo", "-n", "-H", "--"] if sudo else []
    return f"exec {shlex.join([*before, '/bin/sh', '-c', PACK, 'tpu-fleet', path])}"


def sending(pieces: Sequence[Piece]) -> Talk:
    """Write an archive to a worker."""

    async def talk(channel: Channel) -> None:
        for chunk in chunks_of(pieces):
            await channel.write(chunk)

    return talk


class Downloads(Complaints):
    """Receives the workers' archives, unpacks complete ones, and shows the workers' messages."""

    slow = True

    def __init__(self, to: str, single: bool) -> None:
        super().__init__()
        self._base = Path(to)
        self._as = ""
        if single and not (to.endswith("/") or is_folder(self._base)):
            self._base, self._as = self._base.parent, self._base.name
        self._single = single
        self._halves: dict[str, Path] = {}

    async def talk(self, channel: Channel) -> None:
        """Receive a piece of an archive."""
        name = channel.target.name
        half = make_half(self._base if self._single else self._base / name)
        self._halves[name] = half
        with (half / "archive").open("wb") as stream:
            while data := await channel.read():
                stream.write(data)

    def output(self, host: str, stream: str, data: bytes) -> None:
        # The archive itself is never shown.
        if stream == "stderr":
            super().output(host, stream, data)

    def done(self, result: Result) -> Result:
        half = self._halves.pop(result.name, None)
        if half is None:
            return result
        try:
            if result.says or result.exit_status not in (0, CHANGED_WHILE_READ):
                return result
            self._bring_in(result.name, half)
            return replace(result, exit_status=0)
        # With invalid archives tarfile also raises other errors than its own.
        except (OSError, ValueError, EOFError, tarfile.TarError) as error:
            return replace(result, says=str(error))
        finally:
            shutil.rmtree(half, ignore_errors=True)

    def close(self) -> None:
        super().close()
        for half in self._halves.values():
            shutil.rmtree(half, ignore_errors=True)

    def _bring_in(self, name: str, half: Path) -> None:
        new = half / "new"
        new.mkdir()
        with (half / "archive").open("rb") as archive:
            left_out = unpack(archive, new)
        if self._as:
            for entry in new.iterdir():
                entry.rename(new / self._as)
        bring_in(new, half.parent)
        for line in left_out:
            click.echo(f"{name}: left out {line}", err=True)


def check_target(target: Path) -> None:
    """Refuse a place of this computer that cannot be written, before workers are asked."""
    why_not = unwritable(target if is_folder(target) else target.parent)
    if why_not:
        raise click.UsageError(f"{target}: {why_not}. Name another DST.")


@click.command("cp")
@options_of_many
@click.argument("words", type=click.Path(), nargs=-1, required=True, metavar="SRC... DST")
@click.pass_context
def copy(context: click.Context, many: Many, words: tuple[str, ...]) -> None:
    """Copy files and folders to or from all workers in parallel.

    Paths of the workers begin with a colon, before which one worker may stand. Copies from all
    workers go to one folder per worker.

    A copy gets its name only when it is complete. Existing folders keep their other files.

    \b
      tpu-fleet cp data.bin :/tmp
      tpu-fleet cp pair-w0:/tmp/data.bin .
    """
    try:
        wanted = plan(words)
        pieces = pieces_of([Path(source.path) for source in wanted.sources]) if wanted.up else []
    except CopyError as error:
        raise click.UsageError(str(error)) from error
    if wanted.host and many.limit:
        raise click.UsageError(
            "--limit and the name before the colon both choose workers: give one of them"
        )
    if not wanted.up:
        check_target(Path(wanted.target.path))
    known, names = many.workers(wanted.host)
    if wanted.up:
        there = [Path(source.path).resolve().name for source in wanted.sources]
        view = Complaints()
        command = unpack_command(wanted.target.path, there, many.sudo)
        job = Job(command, sending(pieces), many.user, many.settings)
    else:
        single = bool(wanted.host) and len(names) == 1
        downloads = Downloads(wanted.target.path, single)
        view = downloads
        command = pack_command(wanted.sources[0].path, many.sudo)
        job = Job(command, downloads.talk, many.user, many.settings)
    context.exit(run_job(known, names, job, view, many.retry, quiet=False))
