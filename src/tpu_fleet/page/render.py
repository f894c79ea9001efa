"""Write the page as HTML: texts of workers and users are escaped, and a policy forbids the rest."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import quote

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from jinja2 import Template

from ..show import html
from ..show.cost import amount_of, days_left, idle_price
from ..show.figures import amount, loss_text, percent_text, rate_text, share_text, speed_text
from . import words
from .model import Page

MOST_ROWS = 40
"""Slices that are drawn; all of them are in the table."""
OPEN_RUNS = 6
"""Cards of runs in trouble that are open."""
MOST_NEEDS = 12
"""Things that need a person, of those that are listed."""
_HERE = Path(__file__).parent
_CLASSES = {
    "running": "good",
    "succeeded": "",
    "ready": "good",
    "failed": "bad",
    "pending": "wait",
    "creating": "wait",
    "waiting": "wait",
    "coming": "wait",
    "stopped": "wait",
}


def state_class(state: str) -> str:
    """Return the colour of a state; one that is not expected is bad."""
    return _CLASSES.get(state, "bad" if state else "")


def fragment(value: str) -> str:
    """Return the address of a part of the page."""
    return quote(visible(value), errors="replace")


@cache
def _template() -> Template:
    environment = html.environment(_HERE)
    environment.filters["fragment"] = fragment
    by_name = (
        words.clock, words.dollars, words.iso, words.kind_of, words.long, words.number,
        words.percent, words.said, words.short, words.title_of, words.where_of, words.workers_in,
        amount, amount_of, days_left, idle_price, loss_text, percent_text, rate_text, share_text,
        speed_text, state_class,
    )  # fmt: skip
    environment.globals.update({one.__name__: one for one in by_name})
    environment.globals.update(
        day_of=words.day,
        hours=lambda value: f"{value:,.1f} h",
        most_rows=MOST_ROWS,
        most_needs=MOST_NEEDS,
        open_runs=OPEN_RUNS,
    )
    return environment.get_template("page.html.j2")


def policy(live: bool) -> str:
    """Return the Content-Security-Policy: nothing is fetched, and only our own scripts run."""
    told = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    told += f"form-action 'none'; script-src {html.allowed(_HERE / 'ages.js')}"
    return f"{told} {html.allowed(_HERE / 'live.js')}; connect-src 'self'" if live else told


def html_of(page: Page, live: bool = False) -> str:
    """Return the page as one file; a live one has a script that fetches it again."""
    return _template().render(
        page=page,
        live=live,
        policy=policy(live),
        style=html.ours(_HERE / "page.css"),
        ages=html.ours(_HERE / "ages.js"),
        script=html.ours(_HERE / "live.js"),
    )
