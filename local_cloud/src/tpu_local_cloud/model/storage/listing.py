"""One page of a list of objects: by prefix, folders, offsets and patterns.

Behind a folder that is shown once, the list jumps: its length does not matter.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...compute_errors import ComputeError
from .index import LAST, Document, Row

# Items and folders on a page.
MOST = 1000
Place = tuple[str, int]
# Yields the rows behind a place, in order.
Rows = Callable[[str, int], Iterator[Row]]


@dataclass(frozen=True)
class Question:
    """What is asked for."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str = ""
    glob: re.Pattern[str] | None = None
    trailing: bool = False
    """An object whose name is that of a folder is shown as well."""
    size: int = MOST
    token: str = ""


@dataclass
class Page:
    """What was found, and the token of the next page."""

    items: list[Document] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    token: str = ""

    @property
    def length(self) -> int:
        """Return the number of items and folders."""
        return len(self.items) + len(self.folders)


def page(rows: Rows, asked: Question) -> Page:
    """Return the page that a question asks for."""
    found, place = Page(), _begin(asked)
    stream = rows(*place)
    while (row := _next(stream, asked)) is not None:
        folder = _folder(row.name, asked)
        shown = folder is None or (asked.trailing and row.name == folder)
        new = folder is not None and folder not in found.folders[-1:]
        if (shown or new) and found.length >= asked.size:
            found.token = _token(place)
            return found
        if shown:
            found.items.append(row.document)
            place = (row.name, row.generation)
        if folder is not None:
            found.folders += [folder] if new else []
            # An object with the folder's own name comes first, so that it was shown already.
            place = (folder + LAST, 0)
            stream = rows(*place)
    return found


def _begin(asked: Question) -> Place:
    if asked.token:
        return _place(asked.token)
    return max(asked.prefix, asked.start), -1


def _next(stream: Iterator[Row], asked: Question) -> Row | None:
    """Return the next row that matches; None at the end of the list."""
    for row in stream:
        if not row.name.startswith(asked.prefix) or (asked.end and row.name >= asked.end):
            return None
        if asked.glob is None or asked.glob.fullmatch(row.name):
            return row
    return None


def _folder(name: str, asked: Question) -> str | None:
    if not asked.delimiter:
        return None
    head, cut, _rest = name[len(asked.prefix) :].partition(asked.delimiter)
    return asked.prefix + head + cut if cut else None


def _token(place: Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _place(token: str) -> Place:
    try:
        name, number = json.loads(base64.urlsafe_b64decode(token))
        return str(name), int(number)
    except (ValueError, TypeError):
        text = f"Invalid value for pageToken: '{token}' is none of this list."
        raise ComputeError(400, "invalid", text) from None
