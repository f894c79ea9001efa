#!/usr/bin/env python3
"""Draw the pictures of docs/pod-scale.md, and fill its tables, from records of benchmarks/pod.py.

    python3 benchmarks/plot.py

SVG by hand: two kinds of panels are less than a dependency, and a new record changes few lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks/records"
PAGE = ROOT / "docs/pod-scale.md"
PICTURES = ROOT / "docs/pictures"

COLOURS = {
    "gcloud": "#c2410c",
    "push": "#d97706",
    "plain push": "#a16207",
    "ssh (OpenSSH)": "#64748b",
    "ssh (asyncssh)": "#94a3b8",
    "exec": "#1d4ed8",
    "unchanged": "#0f766e",
    "changed": "#7c3aed",
    "start": "#d4d4d8",
}
FIGURES = (("wall", "wall time, s"), ("cpu", "CPU of the controller, s"))
PANEL, GAP, TOP, LEFT = 330, 40, 64, 110
INK, FAINT = "#1f2937", "#d1d5db"


@dataclass(frozen=True)
class Point:
    """What one contender took: median, and the smallest and largest of the rounds."""

    middle: float
    least: float
    most: float


Record = dict[str, Any]


def read(kind: str) -> list[Record]:
    """Return all records of a kind, by hosts and round trip."""
    found = [json.loads(path.read_text()) for path in RECORDS.glob(f"{kind}-*.json")]
    return sorted(found, key=lambda one: (one["facts"]["hosts"], one["facts"]["round_trip_ms"]))


def point(one: Record, name: str, figure: str) -> Point | None:
    """Return a figure of a contender, if it ran."""
    if name not in one["runs"]:
        return None
    values = [run[figure] for run in one["runs"][name]]
    return Point(one["medians"][name][figure], min(values), max(values))


def text(x: float, y: float, words: str, more: str = "") -> str:
    """Write words; more are attributes."""
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    """Draw a straight line."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" {more}/>'


def picture(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Put the parts together, on white, as pages may be dark."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
    style = f'font-family="sans-serif" font-size="12" fill="{INK}" role="img"'
    whole = '<rect width="100%" height="100%" fill="#ffffff"/>'
    big = 'font-size="15" font-weight="bold"'
    body = [f"<title>{escape(title)}</title>", whole, text(16, 26, title, big), *parts]
    return "\n".join([f"{head}{style}>", *body, "</svg>"]) + "\n"


def bars(records: Sequence[Record], hosts: int) -> str:
    """Compare the contenders at one size: a bar for each round trip, and how far rounds differ."""
    here = [one for one in records if one["facts"]["hosts"] == hosts]
    names = [name for name in COLOURS if any(name in one["runs"] for one in here)]
    thick, apart = 14, 10
    row = len(here) * thick + apart
    parts = []
    for column, (figure, title) in enumerate(FIGURES):
        left = LEFT + column * (PANEL + GAP)
        parts.append(text(left, TOP - 12, title))
        points = {
            (name, at): found
            for name in names
            for at, one in enumerate(here)
            if (found := point(one, name, figure))
        }
        # Room for the number behind the longest.
        scale = (PANEL - 100) / max(found.most for found in points.values())
        for (name, at), found in points.items():
            y = TOP + names.index(name) * row + at * thick
            long, middle = found.middle * scale, y + thick / 2 - 1
            paler = f'fill-opacity="{1 - 0.45 * at:.2f}"'
            size = f'width="{long:.1f}" height="{thick - 2}"'
            parts.append(f'<rect x="{left}" y="{y}" {size} fill="{COLOURS[name]}" {paler}/>')
            parts.append(
                line(left + found.least * scale, middle, left + found.most * scale, middle, INK)
            )
            trip = f"{here[at]['facts']['round_trip_ms']:g} ms"
            label = f"{found.middle:.2f}" + (f" ({trip})" if name == names[0] else "")
            parts.append(text(left + found.most * scale + 5, y + thick - 4, label))
    for number, name in enumerate(names):
        y = TOP + number * row + (row - apart) // 2 + 4
        parts.append(text(LEFT - 8, y, name, 'text-anchor="end"'))
    height = TOP + len(names) * row + 10
    return picture(LEFT + 2 * PANEL + GAP, height, f"{hosts} hosts", parts)


def marks_around(values: Sequence[float]) -> list[float]:
    """Return the marks of a logarithmic axis with room for all values: 1, 2, 5, 10, 20 …"""
    every = [step * 10.0**power for power in range(-3, 5) for step in (1, 2, 5)]
    first = max(mark for mark in every if mark <= min(values))
    last = min(mark for mark in every if mark > max(values))
    return [mark for mark in every if first <= mark <= last]


def curves(records: Sequence[Record], round_trip: float) -> str:
    """Show how the cost grows with the hosts; both axes are logarithmic."""
    here = [one for one in records if one["facts"]["round_trip_ms"] == round_trip]
    sizes = [one["facts"]["hosts"] for one in here]
    high, label = 240.0, 96.0
    parts: list[str] = []
    for column, (figure, title) in enumerate(FIGURES):
        left = 56 + column * (PANEL + GAP + 20)
        runs = {
            name: [
                (one["facts"]["hosts"], found.middle)
                for one in here
                if (found := point(one, name, figure))
            ]
            for name in COLOURS
        }
        marks = marks_around([value for pairs in runs.values() for _hosts, value in pairs])

        def across(hosts: float, left: float = left) -> float:
            span = math.log(sizes[-1] / sizes[0]) or 1.0
            return left + (PANEL - label) * math.log(hosts / sizes[0]) / span

        def down(value: float, marks: list[float] = marks) -> float:
            return TOP + high * (1 - math.log(value / marks[0]) / math.log(marks[-1] / marks[0]))

        parts.append(text(left, TOP - 12, title))
        for mark in marks:
            parts.append(line(left, down(mark), left + PANEL - label, down(mark), FAINT))
            parts.append(text(left - 8, down(mark) + 4, f"{mark:g}", 'text-anchor="end"'))
        for size in sizes:
            parts.append(text(across(size), TOP + high + 18, f"{size}", 'text-anchor="middle"'))
        parts.append(text(left + PANEL - label + 22, TOP + high + 18, "hosts"))
        parts += _drawn({name: pairs for name, pairs in runs.items() if pairs}, across, down)
    title = f"8 to 256 hosts, round trip {round_trip:g} ms"
    return picture(2 * (PANEL + GAP) + 76, TOP + high + 36, title, parts)


def _drawn(runs: dict[str, list[tuple[int, float]]], across: Any, down: Any) -> list[str]:
    """Draw a line for each contender, and its name at the end, none over another."""
    parts, below = [], -math.inf
    for name, pairs in sorted(runs.items(), key=lambda item: down(item[1][-1][1])):
        places = [(across(hosts), down(value)) for hosts, value in pairs]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        paint = f'fill="none" stroke="{COLOURS[name]}" stroke-width="2"'
        parts.append(f'<polyline points="{corners}" {paint}/>')
        dot = f'r="3" fill="{COLOURS[name]}"'
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" {dot}/>' for x, y in places]
        x, y = places[-1]
        words = f"{name} {pairs[-1][1]:.1f}"
        if len(places) == 1:
            parts.append(text(x - 8, y + 4, words, f'fill="{COLOURS[name]}" text-anchor="end"'))
            continue
        below = max(y + 4, below + 14)
        parts.append(text(x + 8, below, words, f'fill="{COLOURS[name]}"'))
    return parts


def figures(records: Sequence[Record]) -> str:
    """Return all medians as a table."""
    sizes = sorted({one["facts"]["hosts"] for one in records})
    heads = [f"{size} hosts" for size in sizes]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(sizes)]
    for round_trip in sorted({one["facts"]["round_trip_ms"] for one in records}):
        here = {
            one["facts"]["hosts"]: one
            for one in records
            if one["facts"]["round_trip_ms"] == round_trip
        }
        for name in COLOURS:
            cells = [_cell(here.get(size), name) for size in sizes]
            if any(cells):
                lines.append(f"| {name}, {round_trip:g} ms | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(one: Record | None, name: str) -> str:
    if one is None or name not in one["medians"]:
        return ""
    found = one["medians"][name]
    return f"{found['wall']:.2f} s, {found['cpu']:.2f} s of CPU"


def promises(records: Sequence[Record]) -> str:
    """Return what is promised, and what became of it."""
    lines = ["| hosts, round trip | what | is | at most | |", "| --- | --- | --- | --- | --- |"]
    for one in records:
        where = f"{one['facts']['hosts']}, {one['facts']['round_trip_ms']:g} ms"
        for promise in one["lines"]:
            reached = "" if promise["reached"] else "not reached"
            what, figure, most = (promise[key] for key in ("what", "figure", "most"))
            lines.append(f"| {where} | {what} | {figure:.2f} | {most:.2f} | {reached} |")
    return "\n".join(lines)


def filled(page: str, name: str, content: str) -> str:
    """Return the page with the content between the marks of that name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _begin, rest = page.partition(begin)
    _old, _end, after = rest.partition(end)
    return f"{before}{begin}{content}\n{end}{after}"


def main() -> None:
    """Draw all."""
    reach, apply = read("reach"), read("apply")
    page = PAGE.read_text()
    for kind, records in (("reach", reach), ("apply", apply)):
        page = filled(page, f"{kind} promises", promises(records))
        page = filled(page, f"{kind} figures", figures(records))
    PAGE.write_text(page)
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "reach-64.svg").write_text(bars(reach, 64))
    for hosts in sorted({one["facts"]["hosts"] for one in apply}):
        (PICTURES / f"apply-{hosts}.svg").write_text(bars(apply, hosts))
    for round_trip in sorted({one["facts"]["round_trip_ms"] for one in reach}):
        path = PICTURES / f"reach-sizes-{round_trip:g}ms.svg"
        path.write_text(curves(reach, round_trip))


if __name__ == "__main__":
    main()
