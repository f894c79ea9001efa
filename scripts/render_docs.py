#!/usr/bin/env python3
"""Write the pages of docs/ that are made from the code; with --check only say which are outdated.

scripts/render_docs.py [--check] [--dir DIR]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from pages import DOCS, commands, doctor, errors, fleet_file, gcloud, local_cloud

PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands.page,
    "doctor.md": doctor.page,
    "errors.md": errors.page,
    "fleet-file.md": fleet_file.page,
    "gcloud.md": gcloud.page,
    "local-cloud.md": local_cloud.page,
}


def main(argv: list[str]) -> int:
    """Write or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--dir", type=Path, default=DOCS)
    options = parser.parse_args(argv)
    outdated = []
    for name, render in PAGES.items():
        page = options.dir / name
        text = render()
        if not page.exists() or page.read_text() != text:
            outdated.append(page)
            if not options.check:
                page.write_text(text)
    for page in outdated:
        print(f"{page} is outdated; run: make docs" if options.check else f"wrote {page}")
    return 1 if options.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
