"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

# What goes into a file or to another program has nobody who could make a window wider.
WIDTH = 160


def wide_console() -> Console:
    """Return a console as wide as the terminal; where there is none, wide enough for a table.

    No text is markup: what is shown comes from workers and from people.
    """
    console = Console(markup=False, emoji=False)
    return console if console.is_terminal else Console(width=WIDTH, markup=False, emoji=False)
