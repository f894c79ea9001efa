"""The files that are made from the code: pages of docs/, and what tpu-fleet reads."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PROGRAM = ROOT / "src" / "tpu_fleet"
sys.path[:0] = [str(ROOT / name) for name in ("collections", "src", "local_cloud/src")]


def filled(page: Path, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return a page that is written by hand with the tables in it as they have to be."""
    text = page.read_text()
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _old, found_end, after = rest.partition(end)
        if not (found and found_end):
            raise SystemExit(f"{page} has to have {begin.strip()} and {end}")
        text = f"{before}{begin}{table()}\n{end}{after}"
    return text


def wrapped(text: str) -> str:
    """Break a paragraph into lines."""
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)
