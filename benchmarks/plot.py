#!/usr/bin/env python3
"""Draw the pictures of docs/internals/pod-scale.md, and fill its tables.

They are made from records of benchmarks/pod.py and benchmarks/answering_hosts.py.

.venv/bin/uv pip install --require-hashes -r requirements/bench.txt
.venv/bin/python benchmarks/plot.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator, StrMethodFormatter

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks/records"
PAGE = ROOT / "docs/internals/pod-scale.md"
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
# Text stays text, and a picture whose records are the same stays the same.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tpu.fleet", "font.size": 9})


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


def save(drawn: Figure, name: str) -> None:
    """Write a picture, without the time at which it was drawn."""
    PICTURES.mkdir(exist_ok=True)
    path = PICTURES / f"{name}.svg"
    drawn.savefig(path, metadata={"Date": None, "Creator": None})
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines))


def bars(records: Sequence[Record], hosts: int) -> Figure:
    """Compare the contenders at one size: a bar for each round trip, and how far rounds differ."""
    here = [one for one in records if one["facts"]["hosts"] == hosts]
    names = [name for name in COLOURS if any(name in one["runs"] for one in here)]
    drawn = Figure(figsize=(8.2, 0.9 + 0.27 * len(names) * len(here)), layout="constrained")
    drawn.suptitle(f"{hosts} hosts")
    panels = drawn.subplots(1, len(FIGURES), sharey=True)
    for panel, (figure, title) in zip(panels, FIGURES, strict=True):
        for at, one in enumerate(here):
            for row, name in enumerate(names):
                found = point(one, name, figure)
                if found is None:
                    continue
                place = row + (at - (len(here) - 1) / 2) * 0.8 / len(here)
                far = [[found.middle - found.least], [found.most - found.middle]]
                panel.barh(
                    place,
                    found.middle,
                    0.7 / len(here),
                    color=COLOURS[name],
                    alpha=1 - 0.45 * at,
                    xerr=far,
                )
                trip = f" ({one['facts']['round_trip_ms']:g} ms)" if row == 0 else ""
                label = f" {found.middle:.2f}{trip}"
                panel.annotate(label, (found.most, place), va="center")
        panel.set(title=title, yticks=range(len(names)), yticklabels=names)
        panel.margins(x=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    return drawn


def curves(records: Sequence[Record], round_trip: float) -> Figure:
    """Show how the cost grows with the hosts; both axes are logarithmic."""
    here = [one for one in records if one["facts"]["round_trip_ms"] == round_trip]
    sizes = [one["facts"]["hosts"] for one in here]
    drawn = Figure(figsize=(8.2, 3.6), layout="constrained")
    drawn.suptitle(f"8 to 256 hosts, round trip {round_trip:g} ms")
    panels = drawn.subplots(1, len(FIGURES))
    for panel, (figure, title) in zip(panels, FIGURES, strict=True):
        for name, colour in COLOURS.items():
            pairs = [
                (one["facts"]["hosts"], found.middle)
                for one in here
                if (found := point(one, name, figure))
            ]
            if pairs:
                hosts, last = pairs[-1]
                label = f"{name} {last:.1f}" + (f" at {hosts}" if hosts != sizes[-1] else "")
                panel.loglog(*zip(*pairs, strict=True), marker="o", color=colour, label=label)
        panel.set(title=title, xlabel="hosts")
        panel.xaxis.set_major_locator(FixedLocator(sizes))
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panel.grid(axis="y", alpha=0.4)
        panel.legend(fontsize="small", title=f"at {sizes[-1]} hosts")
    return drawn


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
    reach, apply, answering = read("reach"), read("apply"), read("answering")
    page = PAGE.read_text()
    for kind, records in (("reach", reach), ("apply", apply), ("answering", answering)):
        page = filled(page, f"{kind} promises", promises(records))
        page = filled(page, f"{kind} figures", figures(records))
    PAGE.write_text(page)
    save(bars(reach, 64), "reach-64")
    for hosts in sorted({one["facts"]["hosts"] for one in apply}):
        save(bars(apply, hosts), f"apply-{hosts}")
    for round_trip in sorted({one["facts"]["round_trip_ms"] for one in reach}):
        save(curves(reach, round_trip), f"reach-sizes-{round_trip:g}ms")


if __name__ == "__main__":
    main()
