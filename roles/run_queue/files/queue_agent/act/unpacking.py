"""Unpack an archive of code: a process with the rights of the run's user alone."""

from __future__ import annotations

import sys
from pathlib import Path

from ..shared._host.unpack import Unfit, unpack


def main(words: list[str]) -> int:
    """Unpack the archive that is the first word into the folder that is the second."""
    archive, folder = map(Path, words)
    try:
        with archive.open("rb") as stream:
            unpack(stream, folder)
    except Unfit as error:
        print(error, file=sys.stderr)
        return 1
    return 0
