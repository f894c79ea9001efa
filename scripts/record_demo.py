#!/usr/bin/env python3
"""Draw docs/pictures/demo.svg: what `make demo` shows, from a real run.

    .venv/bin/python scripts/record_demo.py

It runs the demo in a clone of this checkout, and removes both again; no other demo may stand.
Takes about three minutes; what is not committed is not in the picture. The recording itself is
.work/demo.cast, which asciinema plays.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from terminal import Terminal
from terminal_picture import film

ROOT = Path(__file__).resolve().parent.parent
CAST = ROOT / ".work" / "demo.cast"
PICTURE = ROOT / "docs" / "pictures" / "demo.svg"
# Short, because it is on the screen.
CLONE = Path("/tmp/tpu.fleet")  # noqa: S108


def main() -> None:
    """Record the demo."""
    # An error if another user has made it: root runs what is there.
    CLONE.mkdir()
    try:
        subprocess.run(["git", "clone", "--quiet", ROOT, CLONE], check=True)
        subprocess.run(["make", "venv"], cwd=CLONE, check=True)
        terminal = Terminal(CLONE, os.environ, key_seconds=0.05)
        try:
            terminal.type("make demo", "Enter begins")
            terminal.read(3)
            terminal.type("", "workers answer", 60)
            terminal.read(8)
            terminal.press("q")
            terminal.wait_for(r"Done in \d+ s\.\s+\$ $", 60)
            events = terminal.events[:]
        finally:
            terminal.run("source .work/demo/shell; tpu-fleet cloud down --keep-image")
            terminal.close()
    finally:
        shutil.rmtree(CLONE)
    head = {"version": 2, "width": terminal.columns, "height": terminal.rows}
    lines = [head, *([at, "o", text] for at, text in events)]
    CAST.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    PICTURE.write_text(film("make demo", events, terminal.columns, terminal.rows))


if __name__ == "__main__":
    main()
