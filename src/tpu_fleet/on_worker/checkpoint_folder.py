"""List a checkpoint folder of a worker, or delete folders in it, with the rights of the run's user.

The only argument is the request, in JSON:

    {"folder": PATH, "delete": {NAME: TIME, ...}}

A folder in it is deleted if no file in it is newer than TIME. The answer, sent as that of
`run_reader`, has each file that is there then: its name below the folder, its size, and when it was
written; and what could not be done.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tpu_fleet.on_worker.run_reader import BEGINNING, send

MOST = 20_000
"""Files that are listed."""
_MOST_BYTES, _PIECE = 3 << 20, 1 << 19


def main() -> int:
    """Carry out the request that the last argument has."""
    order = json.loads(sys.argv[-1])
    print(BEGINNING, flush=True)
    answer = json.dumps(done(Path(order["folder"]), order["delete"])).encode()
    for begin in range(0, len(answer), _PIECE):
        send({}, answer[begin : begin + _PIECE])
    return 0


def done(folder: Path, delete: dict[str, float]) -> dict[str, Any]:
    """Return the files, whether there are more, and why what was not done was not done."""
    problems: list[str] = []
    if not folder.is_dir():
        return {"files": [], "more": False, "problems": [f"{folder} is no folder here"]}
    for name, at in delete.items():
        problem = removed(folder, name, at)
        problems += [problem] if problem else []
    found: list[tuple[str, int, float]] = []
    size = 0
    for one in files(folder):
        size += len(json.dumps(one))
        if len(found) == MOST or size > _MOST_BYTES:
            return {"files": found, "more": True, "problems": problems}
        found.append(one)
    return {"files": found, "more": False, "problems": problems}


def files(folder: Path) -> Iterator[tuple[str, int, float]]:
    """Yield the plain files below a folder; links lead nowhere."""
    for place, _folders, names in os.walk(str(folder), onerror=None, followlinks=False):
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118 - for thousands of files
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if os.path.isfile(path) and not os.path.islink(path):  # noqa: PTH113, PTH114
                yield os.path.relpath(path, str(folder)), status.st_size, status.st_mtime


def removed(folder: Path, name: str, at: float) -> str:
    """Delete one folder; return what is in the way."""
    parts = Path(name).parts
    path = folder.joinpath(*parts)
    if Path(name).is_absolute() or not parts or ".." in parts or path.is_symlink():
        return f"{name} is not in the folder"
    if any(written > at for _name, _size, written in files(path)):
        return f"{name} was written to meanwhile"
    try:
        shutil.rmtree(str(path))
    except OSError as error:
        return f"{name}: {error.strerror}"
    return ""
