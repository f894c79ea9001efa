"""A program that counts and saves how far it is: what a drill needs, and no more.

counting.py           goes on from what was saved, and tells its step by the file
counting.py forget    never looks at what was saved, and tells its step in its log
counting.py breaks    cannot read what was saved
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

SAVED = Path(os.environ["TPU_FLEET_CHECKPOINT_DIR"], "step.json")
PROGRESS = Path(os.environ["TPU_FLEET_PROGRESS"])
EVERY = 10


def replace(path: Path, step: int, more: str = "") -> None:
    """Write a file as a whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps({"step": step, "more": more}))
    new.replace(path)


def main(how: str) -> None:
    """Count on from what was saved."""
    step = 0
    if SAVED.exists() and how != "forget":
        if how == "breaks":
            sys.exit("what was saved is not understood")
        step = json.loads(SAVED.read_text())["step"]
    while True:
        step += 1
        time.sleep(0.2)
        if how == "forget":
            print("step", step, flush=True)
        else:
            replace(PROGRESS, step)
        if step % EVERY == 0:
            # Large enough that a full disk does not take it.
            replace(SAVED, step, "x" * 200_000)


if __name__ == "__main__":
    main("".join(sys.argv[1:]))
