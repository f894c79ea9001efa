"""The console on which tables are printed."""

from __future__ import annotations

from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from rich.console import Console
from rich.text import Text

# The width for output to a file or another program, where no window can be widened.
WIDTH = 160
LONGEST = 2000
"""Characters of a text: a table of a very long one takes minutes."""


class PlainConsole(Console):
    """Shows every text as text, because it comes from workers, people and Google.

    Rich asks render_str for each cell, title and line.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **how: Any) -> Text:
        """Return a text in which nothing is markup, hides or steers the terminal."""
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        return super().render_str(visible(short), **how)


def say(console: Console, text: str, style: str = "") -> None:
    """Print a text: wrapped between words in a terminal, elsewhere in one line."""
    console.print(
        text,
        style=style,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not console.is_terminal,
    )


def wide_console() -> Console:
    """Return a console as wide as the terminal; without a terminal, wide enough for a table."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=WIDTH)
