"""Ask one question after the other at a terminal, with help and a way back."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import TypeVar

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import visible

from ..show.output import colours_here

HELP = "?"
BACK = "<"
END_OF_TEXT = "."
WIDEST = 100
T = TypeVar("T")


class WrongAnswer(Exception):
    """An answer that cannot be used; the text has the reason and the remedy."""


class Back(Exception):
    """The person wants to change an earlier answer."""


class Dialogue:
    """Asks questions and keeps what was typed.

    To go back, the caller asks all questions once more: those whose answers are kept are answered
    from there, and nothing of that is shown.
    """

    def __init__(self) -> None:
        self.typed: list[tuple[str, str]] = []
        """Question and answer, in the order in which they were typed."""
        self._at = 0

    @property
    def silent(self) -> bool:
        """Return whether kept answers are being repeated."""
        return self._at < len(self.typed)

    def rewind(self) -> None:
        """Forget the last answer, and repeat the others."""
        del self.typed[-1:]
        self._at = 0

    def say(self, text: str = "", err: bool = False) -> None:
        """Show a text, wrapped at words, unless kept answers are being repeated."""
        if not self.silent:
            tell(wrapped(text), err)

    def head(self, text: str) -> None:
        """Show a heading."""
        if not self.silent:
            tell("")
            tell(text, bold=True)

    def question(
        self, name: str, text: str, take: Callable[[str], T], default: str | None, explained: str
    ) -> T:
        """Return what `take` makes of the answer; a wrong one is asked again, with the reason."""
        asked = f"{text} [{default}]:" if default else f"{text}:"
        return self._until_right(name, lambda: _typed(wrapped(asked), default), take, explained)

    def lines(self, name: str, intro: str, take: Callable[[str], T], explained: str) -> T:
        """Return what `take` makes of a pasted text, which Ctrl-D or a full stop ends."""

        def paste() -> str:
            self.say(intro)
            return _pasted()

        return self._until_right(name, paste, take, explained)

    def _until_right(
        self, name: str, get: Callable[[], str], take: Callable[[str], T], explained: str
    ) -> T:
        while True:
            said = self.typed[self._at][1] if self.silent else get()
            if said == HELP:
                self.say(_indented(explained))
            elif said == BACK and self.typed:
                raise Back
            elif said == BACK:
                self.say("  This is the first question.")
            else:
                try:
                    result = take(said)
                except WrongAnswer as wrong:
                    del self.typed[self._at :]  # GitHub may answer otherwise the second time
                    tell(wrapped(_indented(str(wrong))), colour="red")
                    continue
                self.typed[self._at :] = self.typed[self._at :] or [(name, said)]
                self._at += 1
                return result


def tell(text: str, err: bool = False, bold: bool = False, colour: str | None = None) -> None:
    """Show a text; names of folders and people in it are shown, and steer nothing."""
    text = visible(text)
    if (bold or colour) and colours_here(sys.stderr if err else sys.stdout):
        text = click.style(text, bold=bold, fg=colour)
    click.echo(text, err=err)


def wrapped(text: str) -> str:
    """Break lines between words; a continued line is indented like its beginning."""
    width = min(shutil.get_terminal_size().columns, WIDEST) - 1
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        lines += textwrap.wrap(
            line,
            max(width, 20),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")


def _typed(text: str, default: str | None) -> str:
    """Return a line; the first Ctrl-D is forgiven, because pastes are ended by it."""
    for is_last in (False, True):
        try:
            return str(
                click.prompt(text, default=default, show_default=False, prompt_suffix=" ")
            ).strip()
        except click.Abort as abort:
            if is_last or not isinstance(abort.__context__, EOFError):
                raise
            tell("\n  Ctrl-D ends a pasted text. Press it again to leave; nothing is written.")
    raise AssertionError


def _pasted() -> str:
    lines: list[str] = []
    while True:
        try:
            line = click.prompt("", default="", show_default=False, prompt_suffix="")
        except click.Abort as abort:
            if not isinstance(abort.__context__, EOFError):
                raise
            tell("")
            return "\n".join(lines)
        if line.strip() == END_OF_TEXT:
            return "\n".join(lines)
        lines.append(line)
        if line.strip() in (HELP, BACK) and len(lines) == 1:
            return line.strip()
