"""Show the output of many workers: line by line with their names, or equal output once."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TextIO

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import on_terminal, shown
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from ..contract.exits import Exit
from ..workers.ask.view import Terminal, View
from ..workers.inventory.hosts import fold, in_order

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green")
IN_MEMORY = 1 << 16
"""Bytes of a worker's stream that are kept in memory; the rest is on disk."""
LONGEST_LINE = 1 << 16


def exit_code(results: Iterable[Result]) -> int:
    """Return the worst: of success, of a command that failed, of a worker without a result."""
    return max(map(_exit_of, results), default=Exit.DONE)


def _exit_of(result: Result) -> Exit:
    if result.ok:
        return Exit.DONE
    return Exit.FAILED if result.kind is Kind.DONE else Exit.UNKNOWN


def no_results(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Return for programs which workers have no result, and why."""
    return [
        {"worker": one.name, "kind": one.kind.value, "says": one.says, "remedy": one.remedy}
        for one in results
    ]


def problems(results: Iterable[Result]) -> list[str]:
    """List the workers without a result, and why, with one line for each remedy."""
    same: dict[tuple[Kind, str], list[Result]] = {}
    for result in results:
        if result.kind is not Kind.DONE or result.says:
            same.setdefault((result.kind, result.remedy), []).append(result)
    lines = []
    for (kind, remedy), those in same.items():
        first = min(those, key=lambda result: in_order([r.name for r in those]).index(result.name))
        more = f" (and {len(those) - 1} like it)" if len(those) > 1 else ""
        what = kind.value.replace("_", " ") if kind is not Kind.DONE else "failed"
        says = shown(first.says)
        end = "" if says.endswith((".", "!", "?")) else "."
        names = fold(result.name for result in those)
        lines.append(f"{names}: {what}: {says}{more}{end} {shown(remedy)}".rstrip())
    return lines


def show_problems(results: Iterable[Result]) -> None:
    """Print the lines for results without success."""
    for line in problems(results):
        click.echo(line, err=True)


def summary(results: Sequence[Result]) -> str:
    """Return a summary in one line."""
    done = [result for result in results if result.ok]
    parts = [f"{len(done)} of {len(results)} ok"]
    by_status: dict[int, list[str]] = {}
    for result in results:
        if result.kind is Kind.DONE and result.exit_status:
            by_status.setdefault(result.exit_status, []).append(result.name)
    for status, names in sorted(by_status.items()):
        parts.append(f"exit status {status}: {fold(names)}")
    broken = [result.name for result in results if result.kind is Kind.DONE and not result.ok]
    broken = [name for name in broken if not any(name in names for names in by_status.values())]
    if broken:
        parts.append(f"failed: {fold(broken)}")
    lost = [result.name for result in results if result.kind is not Kind.DONE]
    if lost:
        parts.append(f"no result: {fold(lost)}")
    return "; ".join(parts)


def named(names: Sequence[str]) -> str:
    """Format the names of workers, and their number."""
    return f"{fold(names)} ({len(names)})" if len(names) > 1 else fold(names)


def last_written(line: bytes) -> str:
    """Return the visible part of a line: a carriage return goes back to its beginning."""
    return line.rstrip(b"\r\n").rpartition(b"\r")[2].decode("utf-8", "replace")


def colours_here(stream: IO[str]) -> bool:
    """Return whether the output is a terminal with colours."""
    import os

    return stream.isatty() and "NO_COLOR" not in os.environ


def copy(parts: Iterable[bytes], target: TextIO) -> None:
    """Show a worker's output: on a terminal without control characters, else unchanged."""
    filtered = Terminal() if target.isatty() else None
    for part in parts:
        if filtered:
            target.write(filtered.feed(part))
        else:
            target.buffer.write(part)
    if filtered:
        target.write(filtered.feed(b"", final=True))
        target.flush()
    target.buffer.flush()


class Tagged(View):
    """Shows every line immediately, after the name of its worker."""

    def __init__(self, names: Sequence[str], colours: bool) -> None:
        # Aligned for a person; for a program without padding.
        super().__init__()
        width = max(map(len, names), default=0) if colours else 0
        self._tags = {}
        for at, name in enumerate(names):
            tag = f"{name:<{width}} |"
            self._tags[name] = click.style(tag, fg=COLOURS[at % len(COLOURS)]) if colours else tag
        self._rest: dict[tuple[str, str], bytes] = {}

    def output(self, host: str, stream: str, data: bytes) -> None:
        *lines, rest = (self._rest.pop((host, stream), b"") + data).split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines.append(rest)
            rest = b""
        if rest:
            self._rest[host, stream] = rest
        self._print(host, stream, lines)

    def done(self, result: Result) -> Result:
        for stream in ("stdout", "stderr"):
            rest = self._rest.pop((result.name, stream), b"")
            if rest:
                self._print(result.name, stream, [rest])
        return result

    def _print(self, host: str, stream: str, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        tag = self._tags.get(host, f"{host} |")  # one that the fleet has no more
        target = sys.stdout if stream == "stdout" else sys.stderr
        texts = [last_written(line) for line in lines]
        if target.isatty():
            texts = [on_terminal(text) for text in texts]
        target.write("".join(f"{tag} {text}\n" for text in texts))
        target.flush()


@dataclass
class _Said:
    """A worker's whole output on one stream."""

    file: Any = field(default_factory=lambda: SpooledTemporaryFile(max_size=IN_MEMORY))  # noqa: SIM115
    digest: Any = field(default_factory=hashlib.sha256)
    ends_with_line: bool = True

    def add(self, data: bytes) -> None:
        self.file.write(data)
        self.digest.update(data)
        self.ends_with_line = data.endswith(b"\n")

    def text(self) -> str:
        self.file.seek(0)
        return str(self.file.read().decode("utf-8", "replace"))

    def lines(self) -> Iterator[str]:
        self.file.seek(0)
        while line := self.file.readline(LONGEST_LINE):
            yield last_written(line)

    def parts(self) -> Iterator[bytes]:
        self.file.seek(0)
        while data := self.file.read(1 << 16):
            yield data
        if not self.ends_with_line:
            yield b"\n"


class Kept(View):
    """Keeps the output until the end, in bounded memory."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, str], _Said] = {}

    def output(self, host: str, stream: str, data: bytes) -> None:
        if data:
            self._said.setdefault((host, stream), _Said()).add(data)

    def said(self, host: str, stream: str) -> _Said | None:
        """Return a worker's output."""
        return self._said.get((host, stream))

    def close(self) -> None:
        for said in self._said.values():
            said.file.close()

    def same(self, results: Sequence[Result]) -> list[tuple[list[str], Result]]:
        """Group workers with equal output and exit status; the most common first."""
        digests = {}
        for result in results:
            both = (self.said(result.name, stream) for stream in ("stdout", "stderr"))
            out, err = (said.digest.hexdigest() if said else "" for said in both)
            digests[result.name] = (out, err)
        return same_output(results, digests)


class Complaints(Kept):
    """For jobs without output on success: shows equal messages once."""

    def finish(self, results: Sequence[Result]) -> None:
        for names, first in self.same(results):
            for stream in ("stdout", "stderr"):
                said = self.said(first.name, stream)
                if said:
                    for line in said.lines():
                        sys.stderr.write(f"{named(names)} | {shown(line)}\n")
        sys.stderr.flush()


def same_output(
    results: Sequence[Result], digests: Mapping[str, tuple[str, str]]
) -> list[tuple[list[str], Result]]:
    """Group workers with equal output and exit status; the most common first."""
    same: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        key = (digests.get(result.name, ("", "")), result.kind, result.exit_status)
        same.setdefault(key, []).append(result)
    groups = [(in_order(result.name for result in those), those[0]) for those in same.values()]
    order = {name: at for at, name in enumerate(in_order(result.name for result in results))}
    return sorted(groups, key=lambda group: (-len(group[0]), order[group[0][0]]))


class Grouped(Kept):
    """Shows equal output once, after the names of its workers."""

    def __init__(self, count: int, colours: bool, progress: bool) -> None:
        super().__init__()
        self._colours = colours
        self._progress = progress
        self._count, self._done = count, 0

    def done(self, result: Result) -> Result:
        self._done += 1
        if self._progress:
            sys.stderr.write(f"\r\x1b[K{self._done} of {self._count}")
            sys.stderr.flush()
        return result

    def finish(self, results: Sequence[Result]) -> None:
        if self._progress:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        for names, first in self.same(results):
            streams = [self.said(first.name, stream) for stream in ("stdout", "stderr")]
            if not any(streams):
                if first.ok:
                    self._head(names, first, "said nothing")
                continue
            self._head(names, first, "said:")
            for said, target in zip(streams, (sys.stdout, sys.stderr), strict=True):
                if said:
                    copy(said.parts(), target)

    def _head(self, names: Sequence[str], first: Result, what: str) -> None:
        status = f", exit status {first.exit_status}," if first.exit_status else ""
        head = f"{named(names)}{status} {what}"
        sys.stdout.write((click.style(head, bold=True) if self._colours else head) + "\n")
        sys.stdout.flush()


class Json(Kept):
    """Shows one JSON document at the end, written worker by worker to bound memory."""

    def finish(self, results: Sequence[Result]) -> None:
        out = sys.stdout
        out.write('{"workers": [')
        for number, result in enumerate(results):
            out.write(("," if number else "") + "\n" + json.dumps(self._row(result)))
        counts = {
            "ok": sum(result.ok for result in results),
            "failed": sum(result.kind is Kind.DONE and not result.ok for result in results),
            "no_result": sum(result.kind is not Kind.DONE for result in results),
        }
        out.write(f'\n], "summary": {json.dumps(counts)}, "exit_code": {exit_code(results)}}}\n')
        out.flush()

    def _row(self, result: Result) -> dict[str, Any]:
        texts = {}
        for stream in ("stdout", "stderr"):
            said = self.said(result.name, stream)
            texts[stream] = said.text() if said else ""
        return {
            "worker": result.name,
            "ok": result.ok,
            "kind": result.kind.value,
            "exit_status": result.exit_status,
            **texts,
            "says": result.says,
            "remedy": result.remedy,
            "seconds": round(result.seconds, 3),
        }
