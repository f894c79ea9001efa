# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make text of others safe to show. No I/O."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

TEXT = 500
"""Maximum characters of a displayed text."""
LINES = 60

# ESC and its parameters, as for colours and for the cursor.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,32}m")
# Control characters, invisible ones (including those that change the direction of writing),
# surrogates, and line separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_GAP = "\ufffd"


def shown(text: Any, most: int = TEXT) -> str:
    """Return one line of plain text, without control characters, of limited length."""
    return _line(text, most).strip()


def _line(text: Any, most: int) -> str:
    whole = text if isinstance(text, str) else str(text)
    if len(whole) <= most and whole.isascii() and whole.isprintable():
        return whole  # as nearly all are
    line = _SEQUENCE.sub("", whole[: 4 * most])
    line = "".join(" " if char in "\t\n\r" else _visible(char) for char in line)
    return f"{line[: most - 1]}…" if len(whole) > 4 * most or len(line) > most else line


def shown_lines(text: Any, most: int = LINES, width: int = TEXT) -> list[str]:
    """Return the last lines of a text, each as `shown` does it; empty ones are left out.

    What a carriage return overwrites is not shown, as on a terminal.
    """
    whole = text if isinstance(text, str) else str(text)
    return [line for line in shown_text(whole.rstrip("\n"), most, width).split("\n") if line]


def shown_text(text: Any, most: int = LINES, width: int = TEXT) -> str:
    """Return the last lines of a text, with indents and empty lines."""
    whole = text if isinstance(text, str) else str(text)
    lines = whole[-most * width * 4 :].split("\n")[-most:]
    return "\n".join(_line(line.rstrip("\r").rpartition("\r")[2], width).rstrip() for line in lines)


def on_terminal(text: str) -> str:
    """Return a text for a terminal; it keeps its lines, tabs and colours."""
    parts = []
    at = 0
    for colour in _COLOUR.finditer(text):
        parts += [_no_controls(text[at : colour.start()]), colour.group()]
        at = colour.end()
    return "".join([*parts, _no_controls(text[at:])])


def visible(text: str) -> str:
    """Return a text with its lines and tabs; what else hides or steers a terminal is shown."""
    if text.isprintable():
        return text
    return "".join(char if char in "\t\n" else _visible(char) for char in text)


def unfinished(text: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a colour."""
    begins = text.rfind("\x1b", max(0, len(text) - 34))
    rest = text[begins:] if begins >= 0 else ""
    return len(rest) if re.fullmatch(r"\x1b(\[[0-9;:]*)?", rest) else 0


def hides(text: str) -> bool:
    """Return whether a text has a character that is not seen, or steers a terminal."""
    return any(_is_hidden(char) for char in text)


def _no_controls(text: str) -> str:
    return "".join(char if char in "\t\n\r" else _visible(char) for char in text)


def _visible(char: str) -> str:
    return _GAP if _is_hidden(char) else char


def _is_hidden(char: str) -> bool:
    return not " " <= char <= "~" and unicodedata.category(char) in _HIDDEN
