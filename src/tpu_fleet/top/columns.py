"""The columns of the screen, chosen by its width, and the text of their cells. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown
from rich.cells import cell_len, set_cell_size

from ..show.figures import loss_text, percent_text, rate_text, share_text, speed_text
from ..show.table import fitting
from .lines import Line

GAP = 1
LEAST_WHY = 12
WHY_SHARE = 5
"""The reason has at least this part of the width."""
NAME = (8, 26)
"""Least and most cells of the name."""


@dataclass(frozen=True)
class Column:
    """A column."""

    title: str
    width: int
    text: Callable[[Line], str]
    right: bool = False


def cut(text: str, width: int, right: bool = False) -> str:
    """Return a text as exactly so many cells, without anything that a terminal would obey."""
    plain = shown(text, max(2, 2 * width))
    if right:
        plain = " " * (width - cell_len(plain)) + plain
    return cut_row(plain, width)


def cut_row(plain: str, width: int) -> str:
    """Return a text that is safe already as exactly so many cells."""
    if cell_len(plain) > width > 0:
        return set_cell_size(plain, width - 1) + "…"
    return set_cell_size(plain, width)


def duration(seconds: float | None) -> str:
    """Format a duration in at most five characters."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}" if whole < 100 * 86400 else ">99d"


def counted(value: int | None) -> str:
    """Format a whole number, of which a large one is shortened."""
    if value is None:
        return "-"
    return str(value) if abs(value) < 10**9 else f"{value:.2e}"


def tried(attempt: int) -> str:
    """Format the number of an attempt."""
    return "-" if not attempt else str(attempt) if attempt < 1000 else ">999"


COLUMNS: dict[str, Column] = {
    "state": Column("STATE", 13, lambda line: line.state),
    "run": Column("RUN", 13, lambda line: line.run or "-"),
    "slice": Column("SLICE", 12, lambda line: line.slice),
    "step": Column("STEP", 9, lambda line: counted(line.view.step), right=True),
    "speed": Column("SPEED", 7, lambda line: speed_text(line.view.speed), right=True),
    "loss": Column("LOSS", 8, lambda line: loss_text(line.view.loss), right=True),
    "duty": Column("DUTY", 4, lambda line: percent_text(line.view.duty_cycle), right=True),
    "hbm": Column("HBM", 4, lambda line: share_text(line.view.memory_share), right=True),
    "tokens": Column("TOK/S", 6, lambda line: rate_text(line.view.tokens_per_second), right=True),
    "mfu": Column("MFU", 4, lambda line: share_text(line.view.mfu), right=True),
    "saved": Column("SAVED", 5, lambda line: duration(line.view.saved_age), right=True),
    "age": Column("FOR", 5, lambda line: duration(line.view.age), right=True),
    "user": Column("WHO", 9, lambda line: line.view.user or "-"),
    "attempt": Column("TRY", 4, lambda line: tried(line.view.attempt), right=True),
    "disk": Column(
        "DISK", 4, lambda line: "-" if line.disk is None else f"{line.disk}%", right=True
    ),
    "chips": Column("CHIPS", 5, lambda line: str(line.chips or "-"), right=True),
    "workers": Column("WORKERS", 7, lambda line: str(line.workers), right=True),
    "type": Column("TYPE", 12, lambda line: line.type),
    "tier": Column("TIER", 9, lambda line: line.tier),
    "zone": Column("ZONE", 15, lambda line: line.zone),
}
USE = ("duty", "hbm", "tokens", "mfu")
"""Of chips in use; where no row has any, they are left out."""
FIRST = (
    *("state", "run", "step", "saved", "loss", "speed", "attempt", "user", "disk", "chips"),
    *USE,
)
NEXT = ("age", "type", "tier", "zone", "workers")
IMPORTANT: dict[str, tuple[str, ...]] = {
    "runs": ("state", "slice", *FIRST[2:], *NEXT),
    "slices": (*FIRST, *NEXT),
    "workers": (*FIRST, *NEXT[:-1]),
}
"""The columns of each view, the most important first."""


def chosen(view: str, lines: Sequence[Line], width: int) -> list[tuple[Column, int]]:
    """Choose the columns for a width: the name, as many as fit, and the reason in what is left."""
    longest = max((len(line.name) for line in lines), default=0)
    name = min(max(longest, NAME[0]), NAME[1], max(NAME[0], width // 4))
    why = max(LEAST_WHY, width // WHY_SHARE)
    left = width - name - GAP - why
    unknown = {key for key in USE if all(COLUMNS[key].text(line) == "-" for line in lines)}
    wanted = [key for key in IMPORTANT[view] if key not in unknown]
    taken = wanted[: fitting([COLUMNS[key].width for key in wanted], left, GAP)]
    left -= sum(COLUMNS[key].width + GAP for key in taken)
    title = view[:-1].upper()
    found = [(Column(title, name, lambda line: line.name), name)]
    order = ("slice", *COLUMNS) if view == "runs" else tuple(COLUMNS)
    shown_keys = [key for key in dict.fromkeys(order) if key in taken]
    found += [(COLUMNS[key], COLUMNS[key].width) for key in shown_keys]
    return [*found, (Column("WHY", 0, lambda line: line.why), why + left)]


def titles(columns: Sequence[tuple[Column, int]]) -> str:
    """Return the line of titles."""
    return (" " * GAP).join(cut(column.title, width, column.right) for column, width in columns)


def row(line: Line, columns: Sequence[tuple[Column, int]]) -> str:
    """Return a line as text."""
    cells = (cut(column.text(line), width, column.right) for column, width in columns)
    return (" " * GAP).join(cells)
