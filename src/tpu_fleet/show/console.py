"""The console on which tables are printed."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

# The width for output to a file or another program, where nobody can widen a window.
WIDTH = 160


def wide_console() -> Console:
    """Return a console as wide as the terminal; without a terminal, wide enough for a table.

    No text is markup, because it comes from workers and people.
    """
    console = Console(markup=False, emoji=False)
    return console if console.is_terminal else Console(width=WIDTH, markup=False, emoji=False)


def lines_at(drawn: RenderableType, width: int) -> list[str]:
    """Return a table as lines of text of at most so many characters."""
    file = io.StringIO()
    Console(file=file, width=width, markup=False, emoji=False, color_system=None).print(drawn)
    return file.getvalue().rstrip("\n").split("\n")
