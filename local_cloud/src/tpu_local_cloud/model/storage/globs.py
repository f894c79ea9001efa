"""Patterns of names, as the parameter `matchGlob` has them."""

from __future__ import annotations

import re

from ...compute_errors import ComputeError


def pattern(glob: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern; raise for one that is none.

    `*` and `?` match within a folder, `**` across folders, `{a,b}` and `[a-z]` as in a shell.
    """
    try:
        return re.compile(_translated(glob), re.DOTALL)
    except (re.error, ValueError):
        text = f"Invalid value for matchGlob: '{glob}' has a bracket without its other half."
        raise ComputeError(400, "invalid", text) from None


def _translated(glob: str) -> str:
    done, place = "", 0
    while place < len(glob):
        piece, place = _piece(glob, place)
        done += piece
    return done


def _piece(glob: str, place: int) -> tuple[str, int]:
    """Return the translation of what stands at a place, and where the rest begins."""
    for sign, meaning in (("**/", "(?:.*/)?"), ("**", ".*"), ("*", "[^/]*"), ("?", "[^/]")):
        if glob.startswith(sign, place):
            return meaning, place + len(sign)
    if glob[place] == "\\" and place + 1 < len(glob):
        return re.escape(glob[place + 1]), place + 2
    if glob[place] == "{":
        end = glob.index("}", place)
        choices = glob[place + 1 : end].split(",")
        return f"(?:{'|'.join(map(_translated, choices))})", end + 1
    if glob[place] == "[":
        end = glob.index("]", place + 2)
        inside = glob[place + 1 : end].replace("\\", r"\\")
        return f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]", end + 1
    return re.escape(glob[place]), place + 1
