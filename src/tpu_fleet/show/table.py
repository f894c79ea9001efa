"""Tables for terminals: columns chosen by the width, long texts on lines of their own. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TypeVar

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

T = TypeVar("T")
GAP = 2
"""Blanks between two columns."""
INDENT = 4
"""Blanks before a text below its row."""
LEAST = 8
"""Cells of a column that must be shown on a terminal too narrow for all that must."""
LONGEST = 2000
"""Characters of a cell."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    rank: int = 0
    """0 is always shown; of the others the highest is left out first."""
    right: bool = False
    """Whether it has numbers, which stand at the right."""
    if_mixed: bool = False
    """Whether it is shown only where its cells differ."""
    if_known: bool = False
    """Whether it is shown only where a cell has more than a dash."""


@dataclass(frozen=True)
class Row:
    """A row: its cells, texts that may need a line of their own, and a colour."""

    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()
    style: str = ""


@dataclass
class Table:
    """A table without boxes."""

    columns: Sequence[Column]
    title: str = ""
    note: str = ""
    """The title of the texts behind the columns."""
    caption: str = ""
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def of(
        cls, rows: Iterable[T], *columns: tuple[Column, Callable[[T], str]], title: str = ""
    ) -> Table:
        """Return the table of these rows, by what each column has of one."""
        table = cls([column for column, _cell in columns], title)
        for row in rows:
            table.add(*(cell(row) for _column, cell in columns))
        return table

    def add(self, *cells: str, notes: Iterable[str] = (), style: str = "") -> None:
        """Add a row; its texts are shown as text, from any source."""
        safe = tuple(shown(cell, LONGEST) for cell in cells)
        self.rows.append(Row(safe, tuple(shown(one, LONGEST) for one in notes if one), style))

    def lines(self, width: int | None = None) -> list[Text]:
        """Return the table as lines of at most so many cells; without a width, a line a row."""
        told = [at for at in range(len(self.columns)) if self._tells(at)]
        natural = {at: self._widest(at) for at in told}
        taken = told
        if width is not None:
            ranks = {at: self.columns[at].rank for at in told}
            taken, natural = _chosen(ranks, natural, width)
        widths = [natural[at] for at in taken]
        right = [self.columns[at].right for at in taken]
        body, beside = [], False
        for row in self.rows:
            lines, behind = _drawn([row.cells[at] for at in taken], row.notes, widths, right, width)
            beside = beside or behind
            body += [Text(line, style=row.style) for line in lines]
        head = _joined([self.columns[at].title for at in taken], widths, right)
        head += f"{' ' * GAP}{self.note}" if beside else ""
        found = [Text(self.title, style="bold underline")] if self.title else []
        found += [Text(head.rstrip(), style="bold"), *body] if self.rows else []
        left_out = [self.columns[at].title.lower() for at in told if at not in taken]
        if left_out and width and self.rows:
            words = f"Not shown at {width} columns: {', '.join(left_out)}."
            found += [Text(line, style="dim") for line in wrap(words, width)]
        if self.caption:
            found += [Text(line) for line in wrap(shown(self.caption, LONGEST), width or LONGEST)]
        return found

    def _tells(self, at: int) -> bool:
        """Return whether a column distinguishes rows, or is one that always stands there."""
        column, cells = self.columns[at], {row.cells[at] for row in self.rows}
        return not ((column.if_mixed and len(cells) < 2) or (column.if_known and cells <= {"-"}))

    def _widest(self, at: int) -> int:
        cells = (cell_len(row.cells[at]) for row in self.rows)
        return max(cell_len(self.columns[at].title), *cells, 0)


def _chosen(
    ranks: Mapping[int, int], natural: Mapping[int, int], width: int
) -> tuple[list[int], dict[int, int]]:
    """Return the places of the columns that are shown, and the width of each column."""
    must = [at for at, rank in ranks.items() if rank == 0]
    widths = dict(natural)
    while (more := sum(widths[at] + GAP for at in must) - GAP - width) > 0:
        widest = max(must, key=lambda at: widths[at])
        if widths[widest] <= LEAST:
            break
        widths[widest] = max(LEAST, widths[widest] - more)
    room = width + GAP - sum(widths[at] + GAP for at in must)
    others = sorted(set(ranks) - set(must), key=lambda at: ranks[at])
    taken = fitting([widths[at] for at in others], room, GAP)
    return sorted([*must, *others[:taken]]), widths


def fitting(widths: Sequence[int], room: int, gap: int) -> int:
    """Return how many columns fit, of which the most important come first."""
    for number, width in enumerate(widths):
        room -= width + gap
        if room < 0:
            return number
    return len(widths)


def _drawn(
    cells: Sequence[str],
    notes: Sequence[str],
    widths: Sequence[int],
    right: Sequence[bool],
    width: int | None,
) -> tuple[list[str], bool]:
    """Return the lines of a row, and whether its texts stand behind the columns."""
    folded = [folds(cell, room) for cell, room in zip(cells, widths, strict=True)]
    height = max(map(len, folded), default=1)
    lines = [
        _joined([cell[at] if at < len(cell) else "" for cell in folded], widths, right)
        for at in range(height)
    ]
    behind = (" " * GAP).join(notes)
    if notes and (width is None or cell_len(lines[0]) + GAP + cell_len(behind) <= width):
        lines[0] += " " * GAP + behind
        return [line.rstrip() for line in lines], True
    for note in notes:
        lines += [" " * INDENT + line for line in folds(note, max(LEAST, (width or 0) - INDENT))]
    return [line.rstrip() for line in lines], False


def folds(text: str, width: int) -> list[str]:
    """Return a text as lines of at most so many cells, broken between words where that goes."""
    if cell_len(text) <= width:
        return [text]
    found = [""]
    for word in text.split(" "):
        if found[-1] and cell_len(found[-1]) + 1 + cell_len(word) <= width:
            found[-1] += f" {word}"
        else:
            found += chop_cells(word, width) if word else []
    return found[1:]


def _joined(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """Return a line of cells, numbers at the right."""
    parts = [
        " " * (width - cell_len(cell)) + cell if at_right else set_cell_size(cell, width)
        for cell, width, at_right in zip(cells, widths, right, strict=True)
    ]
    return (" " * GAP).join(parts)


def print_tables(console: Console, *tables: Table) -> None:
    """Print tables, an empty line between two; where there is no terminal, each row is a line."""
    width = console.width if console.is_terminal else None
    for number, table in enumerate(tables):
        if number:
            console.print()
        for line in table.lines(width):
            console.print(line, soft_wrap=True)
