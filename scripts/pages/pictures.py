"""docs/pictures/how-*.svg: the four pictures of how it works.

Each has a background of its own, so that it is readable on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

WIDTH = 900
INK, PALE, LINE = "#1f2937", "#5b6472", "#64748b"
FILLS = {
    "plain": ("#ffffff", "#94a3b8"),
    "you": ("#dbeafe", "#1d4ed8"),
    "google": ("#fef3c7", "#b45309"),
    "machine": ("#dcfce7", "#15803d"),
    "bad": ("#fee2e2", "#b91c1c"),
}
FONT = "font-family='system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif'"


def picture(title: str, height: int, parts: Iterable[str]) -> str:
    """Return a picture of these parts, with a title for readers who do not see it."""
    body = "\n".join(parts)
    return f"""\
<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img'
 {FONT} font-size='15'>
<title>{escape(title)}</title>
<defs><marker id='tip' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='8' markerHeight='8'
 orient='auto-start-reverse'><path d='M0 0L10 5L0 10z' fill='{LINE}'/></marker></defs>
<rect width='{WIDTH}' height='{height}' rx='12' fill='#f8fafc'/>
{body}
</svg>
"""


def words(x: float, y: float, text: str, *, bold: bool = False, pale: bool = False) -> str:
    """Return a line of text around a point."""
    weight = " font-weight='600'" if bold else ""
    size = " font-size='13.5'" if pale else ""
    colour = PALE if pale else INK
    return (
        f"<text x='{x:g}' y='{y:g}' text-anchor='middle' fill='{colour}'{weight}{size}>"
        f"{escape(text)}</text>"
    )


def box(x: float, y: float, width: float, height: float, kind: str, *lines: str) -> str:
    """Return a box with a title and further lines."""
    fill, stroke = FILLS[kind]
    middle = x + width / 2
    top = y + height / 2 - 10 * (len(lines) - 1) + 5
    texts = [
        words(middle, top + 20 * i, line, bold=i == 0, pale=i > 0) for i, line in enumerate(lines)
    ]
    rect = (
        f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='8' "
        f"fill='{fill}' stroke='{stroke}' stroke-width='1.5'/>"
    )
    return "\n".join([rect, *texts])


def frame(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    """Return a frame around other boxes, with its title at the top."""
    _fill, stroke = FILLS[kind]
    return (
        f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='10' fill='none' "
        f"stroke='{stroke}' stroke-width='1.5' stroke-dasharray='6 4'/>\n"
        f"{words(x + width / 2, y + 22, title, bold=True)}"
    )


def arrow(path: str, x: float = 0, y: float = 0, *lines: str, both: bool = False) -> str:
    """Return an arrow along a path, with lines of text around a point."""
    begin = " marker-start='url(#tip)'" if both else ""
    drawn = (
        f"<path d='{path}' fill='none' stroke='{LINE}' stroke-width='1.8' "
        f"marker-end='url(#tip)'{begin}/>"
    )
    return "\n".join([drawn, *(words(x, y + 18 * i, t, pale=True) for i, t in enumerate(lines))])


def system() -> str:
    """Draw what there is: your computer, Google's APIs, the workers."""
    return picture(
        "Your computer asks Google's APIs for slices and sets up their workers by ssh. "
        "On each worker a run agent keeps the program running.",
        430,
        [
            frame(24, 24, 270, 382, "you", "your computer, or a server"),
            box(48, 62, 222, 76, "you", "fleet file", "slices, people, code, runs,", "the grant"),
            box(
                48,
                182,
                222,
                76,
                "plain",
                "tpu-fleet, playbooks",
                "plan, apply, show;",
                "end when done",
            ),
            box(
                48,
                302,
                222,
                76,
                "plain",
                "watcher (optional)",
                "repairs day and night,",
                "notifies people",
            ),
            arrow("M159 138V180"),
            arrow("M159 302V260"),
            box(
                560,
                24,
                316,
                84,
                "google",
                "Google Cloud",
                "Cloud TPU API, Compute Engine",
                "what exists, addresses, host keys",
            ),
            arrow(
                "M270 200C400 180 420 70 558 66",
                390,
                66,
                "HTTPS: create, list,",
                "delete",
                both=True,
            ),
            frame(440, 150, 436, 256, "machine", "slice pair (v4-16): two workers"),
            box(
                464,
                186,
                180,
                84,
                "machine",
                "pair-w0",
                "run agent, program",
                "accounts, code, venvs",
            ),
            box(
                672,
                186,
                180,
                84,
                "machine",
                "pair-w1",
                "run agent, program",
                "accounts, code, venvs",
            ),
            arrow("M646 228H670", both=True),
            words(658, 290, "the agents start and end each attempt together", pale=True),
            box(464, 316, 388, 66, "plain", "checkpoints", "bucket, data disk or NFS share"),
            arrow("M554 270V278M554 298V314"),
            arrow("M762 270V278M762 298V314"),
            arrow("M270 232H462", 356, 222, "ssh: set up,"),
            words(356, 252, "logs, shells", pale=True),
        ],
    )


def grant() -> str:
    """Draw the way from a grant to a worker."""
    columns = [
        ("grant", "you", "mail of the TRC,", "or your budget", "32 chips of v4,", "30 days"),
        (
            "allocation",
            "you",
            "fleet_allocations:",
            "what may exist",
            "zone, generation,",
            "tier, chips, ends",
        ),
        ("slice", "you", "fleet_slices:", "what you want", "pair: v4-16", "in us-central2-b"),
        (
            "node",
            "google",
            "Google's resource,",
            "created for the slice",
            "pair, READY;",
            "lost if preempted",
        ),
        (
            "workers",
            "machine",
            "its VMs, one for",
            "each four chips of v4",
            "pair-w0, pair-w1",
            "ssh, runs, disks",
        ),
    ]
    parts = []
    for index, (name, kind, *lines) in enumerate(columns):
        x = 20 + index * 176
        parts.append(box(x, 40, 156, 56, kind, name))
        parts += [words(x + 78, 124 + 19 * i, line, pale=True) for i, line in enumerate(lines[:2])]
        parts.append(f"<rect x='{x}' y='162' width='156' height='62' rx='6' fill='#eef2f7'/>")
        parts += [words(x + 78, 188 + 20 * i, line, pale=True) for i, line in enumerate(lines[2:])]
        if index:
            parts.append(arrow(f"M{x - 20} 68H{x - 3}"))
    parts += [
        words(362, 262, "a slice outside of its allocation is refused", pale=True),
        words(362, 282, "before anything is created", pale=True),
        words(714, 262, "a new node has new workers", pale=True),
        words(714, 282, "with the same names", pale=True),
    ]
    return picture(
        "A grant is written down as allocations. A slice is created only within an allocation. "
        "Google creates a node for it, which has one or more workers.",
        320,
        parts,
    )


def attempts() -> str:
    """Draw the states of a run and its attempts."""
    return picture(
        "A run is pending, running, restarting between attempts, and at the end succeeded, failed "
        "or stopped.",
        400,
        [
            box(30, 150, 140, 60, "plain", "pending", "not begun"),
            box(330, 150, 160, 60, "machine", "running", "attempt 1, 2, 3 …"),
            box(330, 310, 160, 60, "google", "restarting", "between attempts"),
            box(720, 150, 150, 60, "machine", "succeeded", "for good"),
            box(720, 310, 150, 60, "bad", "failed", "until you retry"),
            box(330, 20, 160, 60, "plain", "stopped", "by you"),
            arrow("M170 180H328", 249, 154, "all workers are there,", "the chips are free"),
            words(249, 202, "starts on all at once", pale=True),
            arrow("M490 180H718", 604, 170, "exit code 0 on all workers"),
            arrow(
                "M372 210V308",
                268,
                240,
                "crash, hang, reboot,",
                "maintenance, lost worker,",
                "preemption",
            ),
            arrow("M448 310V212", 566, 252, "next attempt,", "from the last checkpoint"),
            arrow("M490 340H718", 604, 330, "the program failed more"),
            words(604, 360, "often than its retries allow", pale=True),
            arrow("M410 150V82", 470, 122, "stop"),
            arrow("M330 50H100V148", 206, 42, "start, or apply"),
            arrow("M795 370V390H100V212", 240, 384, "retry, or another environment"),
        ],
    )


def disk() -> str:
    """Draw the life of a data disk."""
    return picture(
        "A data disk is created, attached and mounted. It outlives the slice, and is deleted only "
        "when the fleet file says so twice.",
        330,
        [
            box(24, 60, 160, 70, "you", "declared", "fleet_disks: name,", "size, slices, path"),
            box(256, 60, 160, 70, "google", "created", "empty, in the zone", "of its slice"),
            box(488, 60, 160, 70, "google", "attached", "to the slice's node"),
            box(720, 60, 156, 70, "machine", "mounted", "formatted once,", "then never again"),
            arrow("M184 95H254"),
            arrow("M416 95H486"),
            arrow("M648 95H718"),
            words(220, 82, "apply", pale=True),
            words(452, 82, "apply", pale=True),
            words(684, 82, "roles", pale=True),
            box(488, 220, 160, 70, "plain", "detached", "the data stays,", "and costs"),
            arrow("M798 130V255H650", 718, 186, "slice preempted,", "deleted, recreated"),
            arrow("M568 220V132", 490, 172, "the next node", "of the slice"),
            box(24, 220, 160, 70, "bad", "deleted", "with all data"),
            arrow("M488 255H186", 336, 236, "state: absent"),
            words(336, 278, "and delete_data: true, both written by you", pale=True),
        ],
    )
