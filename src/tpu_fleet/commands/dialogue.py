"""Ask one question after the other at a terminal, with help and a way back."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import TypeVar

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible

from ..show.output import colours_here

HELP = "?"
BACK = "<"
END_OF_TEXT = "."
WIDEST = 80
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

    def __init__(self, explained: Mapping[str, str]) -> None:
        self.typed: list[tuple[str, str]] = []
        """Question and answer, in the order in which they were typed."""
        self._at = 0
        self._explained = explained

    @property
    def silent(self) -> bool:
        """Return whether kept answers are being repeated."""
        return self._at < len(self.typed)

    def rewind(self) -> None:
        """Forget the last answer, and repeat the others."""
        del self.typed[-1:]
        self._at = 0

    def say(self, text: str, bold: bool = False) -> None:
        """Show a text, wrapped at words, unless kept answers are being repeated."""
        if not self.silent:
            tell(wrapped(text), bold=bold)

    def question(self, name: str, get: Callable[[], str], take: Callable[[str], T]) -> T:
        """Return what `take` makes of the answer; a wrong one is asked again, with the reason."""
        while True:
            said = self.typed[self._at][1] if self.silent else get()
            if said == HELP:
                self.say(f"  {self._explained[name]}")
            elif said == BACK and self.typed:
                raise Back
            elif said == BACK:
                self.say("  This is the first question.")
            else:
                try:
                    result = take(said)
                except WrongAnswer as wrong:
                    del self.typed[self._at :]  # GitHub may answer otherwise the second time
                    tell(wrapped(textwrap.indent(str(wrong), "  ")), fg="red")
                    continue
                self.typed += [] if self.silent else [(name, said)]
                self._at += 1
                return result


def tell(text: str, err: bool = False, bold: bool = False, fg: str | None = None) -> None:
    """Show a text; names of folders and people in it are shown, and steer nothing."""
    text = visible(text)
    if (bold or fg) and colours_here(sys.stderr if err else sys.stdout):
        text = click.style(text, bold=bold, fg=fg)
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


def typed(text: str, default: str = "") -> str:
    """Ask for a line; the first Ctrl-D is forgiven, because pastes are ended by it."""
    asked = wrapped(f"{text} [{default}]:" if default else f"{text}:")
    try:
        return _line(asked, " ", default or None).strip()
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
    tell("\n  Ctrl-D ends a pasted text. Press it again to leave; nothing is written.")
    return _line(asked, " ", default or None).strip()


def pasted(intro: str) -> str:
    """Ask for a text, which Ctrl-D or a full stop ends."""
    tell(wrapped(intro))
    lines: list[str] = []
    try:
        while (line := _line()).strip() != END_OF_TEXT:
            lines.append(line)
            if lines[0].strip() in (HELP, BACK):
                return lines[0].strip()
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
        tell("")
    return "\n".join(lines)


def _line(asked: str = "", suffix: str = "", default: str | None = "") -> str:
    return str(click.prompt(asked, default, show_default=False, prompt_suffix=suffix))
