"""Pictures of what a terminal showed: SVG without a script, that sends no request."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby, pairwise
from math import inf
from typing import Any

import pyte
from pyte.screens import Char
from terminal import Event

# Readable on the ground of the picture, which is the same on white and on dark pages.
GROUND, TEXT = "#15181d", "#d6d8dd"
COLOURS = {
    "black": "#8b949e",
    "red": "#ff8a80",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": TEXT,
}
COLUMN, ROW, SIZE = 8.4, 19, 14
LEFT, TOP = 14, 42
FONT = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
TALLEST = 400
# The private mode in which a program has a screen of its own.
SECOND = 1049
TOGETHER, LONGEST, LAST = 0.12, 0.9, 8.0
"""Seconds: what comes so close is one frame; no frame but the last one stays longer than this."""
Line = str


def picture(title: str, events: Iterable[Event], columns: int, rows: int = TALLEST) -> str:
    """Draw what is on the screen at the end; without a number of rows, all that was written."""
    screen = _Screen(columns, rows)
    pyte.Stream(screen).feed("".join(text for _at, text in events))
    lines = _lines(screen)
    while lines and not lines[-1]:
        lines.pop()
    drawn = "\n".join(_at(number, line) for number, line in enumerate(lines) if line)
    return _window(title, columns, len(lines), drawn)


def film(title: str, events: Sequence[Event], columns: int, rows: int) -> str:
    """Draw all screens one after the other, without the time in which nothing happens."""
    frames = list(_frames(events, columns, rows))
    known: dict[Line, str] = {}
    drawn = []
    for number, (_seconds, lines) in enumerate(frames):
        for row, line in enumerate(lines):
            if line:
                name = known.setdefault(line, f"l{len(known)}")
                drawn.append(f'<use href="#{name}" y="{(number * rows + row) * ROW}"/>')
    whole = sum(seconds for seconds, _lines in frames)
    at, steps = 0.0, []
    for number, (seconds, _lines) in enumerate(frames):
        steps.append(f"{at / whole:.3%}{{transform:translateY(-{number * rows * ROW}px)}}")
        at += seconds
    end = (len(frames) - 1) * rows * ROW
    style = (
        f"@keyframes film{{{''.join(steps)}}}\n"
        f"#film{{animation:film {whole:.1f}s step-end infinite}}\n"
        # Who wants no motion sees the end.
        f"@media(prefers-reduced-motion:reduce){{#film{{animation:none;"
        f"transform:translateY(-{end}px)}}}}"
    )
    defs = "\n".join(f'<g id="{name}">{line}</g>' for line, name in known.items())
    body = f'<defs>\n{defs}\n</defs>\n<g id="film">\n' + "\n".join(drawn) + "\n</g>"
    return _window(title, columns, rows, body, style)


def too_wide(text: str, columns: int) -> list[str]:
    """Return the lines that would not fit the terminal, by what a wide one shows.

    What pip warns of, such as an index that this computer's settings name, is not the fleet's.
    """
    screen = pyte.Screen(3 * columns, TALLEST)
    pyte.Stream(screen).feed(text)
    lines = [line.rstrip() for line in screen.display]
    return [line for line in lines if len(line) > columns and not line.startswith("WARNING: ")]


class _Screen(pyte.Screen):
    """A screen with the second one of programs that fill it, which pyte does not know."""

    def set_mode(self, *modes: int, **kinds: Any) -> None:
        if kinds.get("private") and SECOND in modes:
            self._first = copy.deepcopy((self.buffer, self.cursor))
        super().set_mode(*modes, **kinds)

    def reset_mode(self, *modes: int, **kinds: Any) -> None:
        if kinds.get("private") and SECOND in modes:
            self.buffer, self.cursor = self._first
            self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **kinds)


def _frames(events: Sequence[Event], columns: int, rows: int) -> Iterable[tuple[float, list[Line]]]:
    """Yield each screen, with the seconds that it is shown."""
    screen = _Screen(columns, rows)
    stream = pyte.Stream(screen)
    before: list[Line] = []
    since = began = events[0][0]
    changed = False
    for (at, text), (following, _) in pairwise([*events, (inf, "")]):
        stream.feed(text)
        began, changed = (began if changed else at), True
        if following - began < TOGETHER:
            continue
        changed = False
        lines = _lines(screen)
        if lines != before:
            if before:
                yield min(began - since, LONGEST), before
            before, since = lines, began
    yield LAST, before


BESIDE = 8
"""Letters at each side of a title, of which the dots take some."""


def _window(title: str, columns: int, rows: int, body: str, style: str = "") -> str:
    width, height = round(columns * COLUMN + 2 * LEFT), rows * ROW + TOP + 12
    frame = f'x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="4"'
    inside = f'x="{LEFT}" y="{TOP}" width="{width - LEFT}" height="{rows * ROW}"'
    dots = "".join(f'<circle cx="{x}" cy="18" r="5"/>' for x in (20, 38, 56))
    room = columns - 2 * BESIDE
    cut = title if len(title) <= room else f"{title[: room - 1]}…"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">
<title>{escape(title)}</title>
<style>
text{{font:{SIZE}px {FONT};fill:{TEXT};white-space:pre}}
{"".join(f".{name}{{fill:{colour}}}" for name, colour in COLOURS.items())}
.b{{font-weight:bold}}.i{{fill:{GROUND}}}
{style}
</style>
<rect {frame} fill="{GROUND}" stroke="#6e7681"/>
<g fill="#6e7681">{dots}</g>
<text x="{width / 2:g}" y="23" text-anchor="middle">{escape(cut)}</text>
<svg {inside}>
{body}
</svg>
</svg>
"""


def _at(row: int, line: Line) -> str:
    return f'<g transform="translate(0 {row * ROW})">{line}</g>' if row else f"<g>{line}</g>"


def _lines(screen: pyte.Screen) -> list[Line]:
    return [
        _line([screen.buffer[row][column] for column in range(screen.columns)])
        for row in range(screen.lines)
    ]


def _line(cells: Sequence[Char]) -> Line:
    """Draw a line: each stretch of one look, where it belongs whatever the font's width is."""
    column, parts = 0, []
    for look, group in groupby(cells, lambda cell: cell._replace(data="")):
        text = "".join(cell.data for cell in group)
        parts.append(_stretch(column, text, look))
        column += len(text)
    return "".join(parts)


def _stretch(column: int, text: str, look: Char) -> str:
    front, back = _colour(look.fg), _colour(look.bg)
    if look.reverse:
        front, back = back, front or "white"
    drawn = ""
    if back or look.reverse:
        x, width = column * COLUMN, len(text) * COLUMN
        drawn = f'<rect class="{back}" x="{x:g}" width="{width:g}" height="{ROW}"/>'
    words = text.rstrip()
    if not words:
        return drawn
    column += len(words) - len(words.lstrip())
    words = words.lstrip()
    classes = " ".join(filter(None, [front or ("i" if drawn else ""), "b" if look.bold else ""]))
    attributes = f' class="{classes}"' if classes else ""
    if len(words) > 1:
        attributes += f' textLength="{len(words) * COLUMN:g}"'
    return (
        f'{drawn}<text x="{column * COLUMN:g}" y="{SIZE}"{attributes}>{escape(words, False)}</text>'
    )


def _colour(name: str) -> str:
    """Return the class of a colour of the terminal; of the default, and of another, none."""
    name = name.removeprefix("bright")
    return name if name in COLOURS else ""
