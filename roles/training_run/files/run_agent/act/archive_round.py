"""One round of a run's archive: a process that writes what is new to a bucket, and ends soon.

It has the rights of the run's user alone, so that it reads no file that the user may not read. It
writes with the machine's own account. Each object has a new name, but for results, so no object is
written more than once a second; and what is written twice, because an answer was lost, is read
once (`archive.py`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..decide import archive
from ..decide.checkpoints import name_below
from ..decide.values import is_whole, one_line
from . import user_files
from .bucket_requests import Bucket, CannotLook
from .log_files import Open, files_of, size_of, sum_before

SECONDS = {"parts": 40.0, "results": 300.0}
"""How long a round may take."""
_MOST = {archive.LOG: 4 << 20, archive.EVENTS: 1 << 20}
_MOST_NOTE = 1 << 19
_NOTES = 5
_KINDS = ("hang-*.txt", "hang-*.json", "start-*.txt", "start-*.json")
_TRIES = 5  # numbers of parts that may be taken
_ENTRIES = 20_000  # of folders of results that are looked at
_PIECE = 1 << 18


def main(words: list[str]) -> int:
    """Do the round that a JSON object asks for; print what was done."""
    print(json.dumps(done(json.loads(words[0]))))
    return 0


def done(asked: dict[str, Any]) -> dict[str, Any]:
    """Write what is new; return how far that is, as `state`, whether there is `more`, and `error`.

    Asked is with the addresses of `storage` and `metadata`, the `bucket`, the `prefix` of the
    objects, and the `state` of the answer before. `what` is "parts", with the path of the `log`,
    or "results", with those `declared`, the `workdir`, and how many `writes` are allowed.
    """
    state = dict(asked["state"])
    place = Place(asked, SECONDS[asked["what"]])
    work = _parts if asked["what"] == "parts" else _results
    try:
        more, note = work(place, asked, state)
        error = ""
    except CannotLook as trouble:
        more, note, error = True, "", str(trouble)
    except OSError as trouble:
        more, note, error = True, "", f"{trouble.filename or 'a file'}: {trouble.strerror}"
    finally:
        place.bucket.close()
    return {"state": state, "more": more, "note": one_line(note), "error": one_line(error)}


class Place:
    """What a bucket has below a prefix."""

    def __init__(self, asked: dict[str, Any], seconds: float) -> None:
        self.bucket = Bucket(asked["storage"], asked["metadata"], asked["bucket"], seconds)
        self._prefix: str = asked["prefix"]

    def name(self, name: str) -> str:
        """Return the whole name of an object."""
        return self._prefix + name


# Logs, events, notes of hangs


def _parts(to: Place, asked: dict[str, Any], state: dict[str, Any]) -> tuple[bool, str]:
    """Write what is new as one part; compose the last parts if there are many."""
    known, streams, more, frames = state.get("streams") or {}, {}, False, []
    for stream, path, most in _sources(Path(asked["log"])):
        new = _new_of(path, known.get(stream), most)
        if new is None:
            continue
        streams[stream], more = new.place, more or new.more
        if new.data:
            frames.append(archive.frame(stream, new.at, new.data, time.time(), new.lost))
    content = b"".join(frames)
    if content:
        _add(to, state, content)
    # A note that is gone is not needed any more, and its number does not come again.
    state["streams"] = {**{key: known[key] for key in _MOST if key in known}, **streams}
    _tidy(to, state)
    return more, ""


def _sources(log: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the streams of a run, their files, and how much of each is in one part."""
    yield archive.LOG, log, _MOST[archive.LOG]
    yield archive.EVENTS, log.with_name("events.jsonl"), _MOST[archive.EVENTS]
    for kind in _KINDS:
        notes = [one for one in log.parent.glob(kind) if len(one.name) < 20]
        for note in sorted(notes, key=lambda one: one.lstat().st_mtime)[-_NOTES:]:
            yield note.name, note, _MOST_NOTE


@dataclass(frozen=True)
class _New:
    """What is new of a stream."""

    at: int
    data: bytes
    place: dict[str, Any]
    more: bool = False
    lost: bool = False


def _new_of(path: Path, before: Any, most: int) -> _New | None:
    """Return what a file that rotates has after a place; None if there is no such file."""
    files = files_of(path)
    try:
        return _after(files, before if isinstance(before, dict) else {}, most) if files else None
    finally:
        for one in files:
            os.close(one.descriptor)


def _after(files: list[Open], before: dict[str, Any], most: int) -> _New:
    at = before["at"] if is_whole(before.get("at")) else 0
    number, offset, lost = _begin(files, before.get("file"))
    lost = lost or before.get("lost") is True
    parts: list[bytes] = []
    left = most
    while left:
        part = os.pread(files[number].descriptor, left, offset)
        parts.append(part)
        offset, left = offset + len(part), left - len(part)
        # A file that was put aside gets no more bytes.
        if not part and number == len(files) - 1:
            break
        if not part:
            number, offset = number + 1, 0
    data, file = b"".join(parts), files[number]
    place = {"at": at + len(data), "file": [file.name, offset, sum_before(file, offset)]}
    more = number < len(files) - 1 or size_of(file) > offset
    return _New(at, data, {**place, "lost": True} if lost and not data else place, more, lost)


def _begin(files: list[Open], file: Any) -> tuple[int, int, bool]:
    """Return file and offset that come next, and whether something before them is missing."""
    if not (isinstance(file, list) and len(file) == 3):
        return 0, 0, False
    name, offset, summed = file
    for number, one in enumerate(files):
        if one.name == name:
            # The end may be lost with the machine's power; what comes now is behind that.
            kept = offset <= size_of(one) and sum_before(one, offset) == summed
            return number, offset if kept else min(offset, size_of(one)), not kept
    return 0, 0, True


def _add(to: Place, state: dict[str, Any], content: bytes) -> None:
    """Write a part. A number that is taken has what an earlier round wrote of the same places."""
    number = state["next"] if is_whole(state.get("next")) else 0
    for taken in range(number, number + _TRIES):
        name = to.name(archive.part_name(taken, taken))
        if to.bucket.write(name, content, generation=0):
            state["next"] = taken + 1
            state["parts"] = [*(state.get("parts") or []), [taken, taken, len(content)]]
            return
    state["next"] = number + _TRIES
    raise CannotLook("the answers to several writes were lost")


def _tidy(to: Place, state: dict[str, Any]) -> None:
    """Make one part of several, and delete those; nothing is lost if that ends midway."""
    parts = state.get("parts") or []
    if not archive.to_compose(parts):
        return
    names = [to.name(archive.part_name(first, last)) for first, last, _size in parts]
    first, last, size = parts[0][0], parts[-1][1], sum(part[2] for part in parts)
    is_whole_now = to.bucket.compose(names, to.name(archive.part_name(first, last)))
    # If one is not there, an earlier round composed them, and has begun to delete them.
    state["parts"] = [[first, last, size]] if is_whole_now and size < archive.FULL else []
    for name in names:
        to.bucket.delete(name)


# Declared results


def _results(to: Place, asked: dict[str, Any], state: dict[str, Any]) -> tuple[bool, str]:
    """Write the results that are new or have changed."""
    known = {**(state.get("results") or {})}
    state["results"], writes, notes = known, asked["writes"], []
    seen: set[str] = set()
    for name, path in _files(asked["declared"], asked["workdir"]):
        if len(seen) >= archive.MOST_RESULTS:
            notes.append(f"only the first {archive.MOST_RESULTS} files of results are archived")
            break
        key = hashlib.sha256(os.fsencode(name)).hexdigest()[:12]
        seen.add(key)
        try:
            with user_files.opened(path, os.O_RDONLY) as descriptor:
                found = os.fstat(descriptor)
                stamp = [found.st_size, found.st_mtime_ns]
                if found.st_size > archive.MOST_RESULT:
                    notes.append(f"{name} has more than 1 GiB and is not archived")
                elif known.get(key) != stamp:
                    if writes <= 0:
                        return True, "; ".join(notes)
                    writes -= 1
                    to.bucket.put(
                        to.name(f"results/{name}"), stamp[0], _pieces(descriptor, stamp[0])
                    )
                    known[key] = stamp
        except OSError:
            continue  # it went, or is no plain file
    for key in known.keys() - seen:
        del known[key]
    return False, "; ".join(notes)


def _files(declared: list[str], workdir: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of declared results, each with its name in the folder of results."""
    for one in declared:
        if not workdir and not one.startswith("/"):
            continue
        path = os.path.normpath(Path(workdir, one))
        inside = os.path.relpath(path, workdir) if workdir else ".."
        base = "/" if one.startswith("/") or inside.startswith("..") else workdir
        for found in _plain(path):
            name = os.path.relpath(found, base)
            if name_below(name, "") == name and len(name) < 600:
                yield name, Path(found)


def _plain(path: str) -> Iterator[str]:
    """Yield a file, or the files of a folder; links are left out."""
    try:
        kind = Path(path).lstat().st_mode
    except OSError:
        return
    if stat.S_ISREG(kind):
        yield path
    elif stat.S_ISDIR(kind):
        walk = ((at, name) for at, _folders, names in os.walk(path) for name in sorted(names))
        for at, name in itertools.islice(walk, _ENTRIES):
            yield str(Path(at, name))


def _pieces(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield exactly so many bytes; a file that got shorter ends the request."""
    offset = 0
    while offset < size:
        piece = os.pread(descriptor, min(_PIECE, size - offset), offset)
        if not piece:
            raise ValueError("the file got shorter meanwhile")
        offset += len(piece)
        yield piece
