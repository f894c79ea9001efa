"""The methods of Google's APIs by their paths, also those that the local cloud does not have."""

from __future__ import annotations

import functools
import re
from collections import defaultdict

from .schema import DOCUMENTS

# Verb and number of slashes -> pattern of the path and name of each method.
_Index = dict[tuple[str, int], list[tuple[re.Pattern[str], str]]]
_VERSION = "(?:v1|beta|alpha)"


def name_of(http: str, path: str) -> str:
    """Return the name of Google's method at a path, as in its documents; empty for none."""
    for pattern, name in _index().get((http, path.count("/")), ()):
        if pattern.fullmatch(path):
            return name
    return ""


@functools.cache
def _index() -> _Index:
    found: _Index = defaultdict(list)
    lines = (DOCUMENTS / "methods.txt").read_text().splitlines()
    # What names more of a path comes first: `…/families` before `…/{}`.
    for line in sorted(lines, key=lambda line: line.count("{}")):
        name, http, shape = line.split(" ")
        pattern = re.escape(shape).replace(r"\{v\}", _VERSION).replace(r"\{\}", "[^/:]+")
        found[http, 1 + shape.count("/")].append((re.compile("/" + pattern), name))
    return found
