"""Write the page as HTML: texts of workers and users are escaped, and a policy forbids the rest."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

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


def as_text(value: Any) -> Any:
    """Return a value in whose text nothing hides or turns the direction of writing."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def fragment(value: str) -> str:
    """Return the address of a part of the page."""
    return quote(visible(value), errors="replace")


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=as_text,
    )
    environment.filters["fragment"] = fragment
    environment.globals.update(
        clock=words.clock,
        day_of=words.day,
        days_left=days_left,
        dollars=words.dollars,
        hours=lambda value: f"{value:,.1f} h",
        idle_price=idle_price,
        iso=words.iso,
        kind_of=words.kind_of,
        long=words.long,
        loss_text=loss_text,
        amount=amount,
        amount_of=amount_of,
        number=words.number,
        percent=words.percent,
        said=words.said,
        short=words.short,
        speed_text=speed_text,
        percent_text=percent_text,
        rate_text=rate_text,
        share_text=share_text,
        state_class=state_class,
        title_of=words.title_of,
        where_of=words.where_of,
        workers_in=words.workers_in,
        most_rows=MOST_ROWS,
        most_needs=MOST_NEEDS,
        open_runs=OPEN_RUNS,
    )
    return environment.get_template("page.html.j2")


@cache
def _ours(name: str) -> Markup:
    """Return a text of this package, which needs no escape."""
    return Markup((_HERE / name).read_text(encoding="utf-8").strip())  # noqa: S704


def _allowed(name: str) -> str:
    """Return the hash by which a policy allows a script of this package."""
    digest = hashlib.sha256(_ours(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def policy(live: bool) -> str:
    """Return the Content-Security-Policy: nothing is fetched, and only our own scripts run."""
    told = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    told += f"form-action 'none'; script-src {_allowed('ages.js')}"
    return f"{told} {_allowed('live.js')}; connect-src 'self'" if live else told


def html_of(page: Page, live: bool = False) -> str:
    """Return the page as one file; a live one has a script that fetches it again."""
    return _template().render(
        page=page,
        live=live,
        policy=policy(live),
        style=_ours("page.css"),
        ages=_ours("ages.js"),
        script=_ours("live.js"),
    )
