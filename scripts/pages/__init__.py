"""The pages of docs/ that are made from the code."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "src")]


def wrapped(text: str) -> str:
    """Break a paragraph into lines."""
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)
