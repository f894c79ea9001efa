"""Write what an archive has of a machine to a folder, as `tpu-fleet fetch` brings it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import EVENTS, LOG, Life

from .declared import Kept

FILES = {LOG: "run.log", EVENTS: "events.jsonl"}
"""The file of each stream; a note of a hang is called as its stream."""


class LinkError(OSError):
    """Something in the folder leads elsewhere."""


def bring(kept: Kept, life: Life, folder: Path) -> int:
    """Write the files of a life that are not here yet; return their number.

    Raises TpuError and OSError.
    """
    count = 0
    newest = max((part.at for part in life.parts), default=0.0)
    if life.parts and not _is_here(folder / FILES[LOG], newest):
        count += _streams(kept, life, folder, newest)
    for one in life.results:
        target = folder / one.name
        if not (_is_here(target, one.at) and target.stat().st_size == one.size):
            _write(folder, target, kept.archive.content(life, one), one.at)
            count += 1
    return count


def _is_here(path: Path, at: float) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_mtime >= at - 0.001


def _streams(kept: Kept, life: Life, folder: Path, at: float) -> int:
    """Write log, events and notes, each as one file."""
    with tempfile.TemporaryDirectory(prefix=".tpu-fleet-", dir=_made(folder, folder)) as new:
        found: set[str] = set()
        for frame, data, _lost in kept.archive.frames(life):
            name = FILES.get(frame.stream, frame.stream)
            found.add(name)
            with Path(new, name).open("ab") as stream:
                stream.write(data)
        # The log last, as it says that all are here.
        for name in sorted(found, key=lambda name: name == FILES[LOG]):
            os.utime(Path(new, name), (at, at))
            Path(new, name).replace(folder / name)
    return len(found)


def _write(folder: Path, target: Path, content: Iterable[bytes], at: float) -> None:
    parent = _made(folder, target.parent)
    with tempfile.NamedTemporaryFile(dir=parent, delete=False) as out:
        try:
            for piece in content:
                out.write(piece)
            out.flush()
            os.utime(out.name, (at, at))
            Path(out.name).replace(target)
        except BaseException:
            Path(out.name).unlink(missing_ok=True)
            raise


def _made(folder: Path, inside: Path) -> Path:
    """Make a folder inside of another; raises LinkError if a link leads elsewhere."""
    if not inside.resolve().is_relative_to(folder.resolve()):
        raise LinkError(None, f"{inside} is a link that leads elsewhere: remove it", str(inside))
    inside.mkdir(parents=True, exist_ok=True)
    return inside
