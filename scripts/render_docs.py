#!/usr/bin/env python3
"""Write the files that are made from the code; with --check only say which are outdated.

They are pages of docs/, and what the command tpu-fleet reads and hands out.

scripts/render_docs.py [--check] [--dir DIR]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from pages import (
    DOCS,
    PROGRAM,
    command_line,
    commands,
    doctor,
    errors,
    fleet_file,
    gcloud,
    local_cloud,
    schema,
    top,
)

PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands.page,
    "doctor.md": doctor.page,
    "errors.md": errors.page,
    "fleet-file.md": fleet_file.page,
    "gcloud.md": gcloud.page,
    "local-cloud.md": local_cloud.page,
    "pictures/top.svg": top.page,
}
OF_PROGRAM: dict[str, Callable[[], str]] = {
    "command_line.json": command_line.page,
    "fleet.schema.json": schema.page,
}


def main(argv: list[str]) -> int:
    """Write or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--dir", type=Path, help="write all of them here")
    options = parser.parse_args(argv)
    outdated = []
    for name, render in {**PAGES, **OF_PROGRAM}.items():
        folder = options.dir or (PROGRAM if name in OF_PROGRAM else DOCS)
        page = folder / name
        text = render()
        if not page.exists() or page.read_text() != text:
            outdated.append(page)
            if not options.check:
                page.parent.mkdir(exist_ok=True)
                page.write_text(text)
    for page in outdated:
        print(f"{page} is outdated; run: make docs" if options.check else f"wrote {page}")
    return 1 if options.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
