"""Labels as all of Google's APIs take them: lower-case letters of any script, digits, - and _."""

from __future__ import annotations

import unicodedata
from typing import Any

MOST = 64
LONGEST = 63
_MORE = ("Nd", "Nl", "No")
_LETTERS = ("Ll", "Lo")


def is_key(text: str) -> bool:
    """Return whether a text may be the key of a label."""
    return is_letter(text[:1]) and is_value(text)


def is_value(text: Any) -> bool:
    """Return whether something may be the value of a label."""
    return isinstance(text, str) and len(text) <= LONGEST and wrong_character(text) is None


def is_letter(character: str) -> bool:
    """Return whether a key may begin with a character."""
    return bool(character) and unicodedata.category(character) in _LETTERS


def wrong_character(text: str) -> int | None:
    """Return the place of the first character that labels cannot have, if there is one."""
    for place, character in enumerate(text):
        if character not in "-_" and unicodedata.category(character) not in (*_LETTERS, *_MORE):
            return place
    return None
