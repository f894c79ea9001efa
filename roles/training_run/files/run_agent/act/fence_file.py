"""The file of the fence, in the checkpoint folder (`decide/fence.py` says what it is for).

What touches the folder runs as the run's user, and never in the agent itself: a share whose server
is away blocks every process that looks at it.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..decide.fence import Mark
from . import user_files


def read(path: Path) -> Mark | None:
    """Return what the file says; None when there is none, or it says nothing."""
    data = user_files.load(path)
    return None if data is None else Mark.from_json(data)


def write(path: Path, mark: Mark) -> None:
    """Put a name on the folder; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    user_files.create(path, (json.dumps(mark._asdict()) + "\n").encode())
