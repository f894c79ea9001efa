"""`tpu-fleet page`: the fleet as one self-contained page of HTML."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import (
    Inventory,
    InventoryError,
)

from ..history.archived import keep as keep_archived
from ..history.record import history_here, option_of_days, places_known, seen_now
from ..history.store import History
from ..page.model import Page, page_of
from ..page.publish import BUCKET, folder_of, put
from ..page.render import html_of
from ..page.serve import Live, keep_new, server_of
from ..queue.glance import glance
from ..show.waiting import waiting_for
from ..workers.ask.run_answers import ask_for_runs
from ..workers.inventory.client import client_of
from . import status
from .asking import asking
from .options import option_interval, unwritable

EVERY = 15.0


def look_and_keep(history: History) -> Inventory:
    """Ask the API and the workers, as `status` does, and keep what they say."""
    with waiting_for("Asking the API for nodes, grant and costs"):
        seen = status.look_at_fleet()
    known, view = seen.known, seen.view
    workers = list(known.fleet.targets)
    with asking(workers):
        answers = ask_for_runs(known, workers, sudo=True, retry=False, places=places_known(history))
    found = seen_now(answers, known, view)
    found.facts["queue"] = glance(seen.inventory, found.at).to_dict()
    history.add(found)
    keep_archived(history, lambda text: click.echo(visible(text), err=True))
    if view.problem:
        click.echo(f"Grant and costs are unknown: {visible(view.problem)}", err=True)
    return seen.inventory


@click.command()
@click.option(
    "-o",
    "--output",
    "place",
    default="fleet.html",
    show_default=True,
    metavar="PLACE",
    help="A file, a folder, or gs://BUCKET/FOLDER.",
)
@click.option("--no-logs", is_flag=True, help="Leave out everything that programs printed.")
@option_of_days
@click.option("--serve", is_flag=True, help="Show it live on this computer, until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="With --serve: the port.  [default: any that is free]",
)
@option_interval(EVERY, click.FloatRange(min=1.0), "With --serve: time between two looks.")
def page(place: str, no_logs: bool, days: float, serve: bool, port: int, interval: float) -> None:
    """Write or serve the fleet's page: one file of HTML.

    It shows what runs now, a time line of every run with what interrupted it, curves of loss and
    speed, who uses which chips, costs, what is left of the grant, and events. It asks the API and
    the workers once, and shows with it what the watcher and other commands have seen before.

    \b
      tpu-fleet page
      tpu-fleet page --serve
      tpu-fleet page -o gs://lab/fleet --no-logs
    """
    if not serve:
        check_place(place)
    with closing(history_here()) as history:
        inventory = look_and_keep(history)
        name = status.name_of(inventory)
        if serve:
            show_live(history, lambda: shown(history, name, days, not no_logs), port, interval)
            return
        html = html_of(shown(history, name, days, not no_logs))
        try:
            put(place, html, lambda: client_of(inventory))
        except OSError as error:
            raise click.ClickException(f"{place} cannot be written: {error.strerror}.") from error
    click.echo(place if place.startswith("gs://") else Path(place).resolve().as_uri())


def check_place(place: str) -> None:
    """Refuse a folder of this computer that cannot be written, before workers are asked."""
    if place.startswith(BUCKET):
        return
    why_not = unwritable(folder_of(place)[0])
    if why_not:
        raise click.ClickException(f"{place}: {why_not}. Name another -o.")


def shown(history: History, name: str, days: float, logs: bool) -> Page:
    """Return the page of this moment."""
    return page_of(history, name, time.time(), days, logs)


def show_live(history: History, page: Callable[[], Page], port: int, interval: float) -> None:
    """Serve the page until the user stops it."""
    live, over = Live(), threading.Event()
    live.set(html_of(page(), live=True))
    try:
        server, address = server_of(live, port)
    except OSError as error:
        raise click.ClickException(
            f"Port {port} of 127.0.0.1 cannot be used: {error.strerror}. Name another --port."
        ) from error

    threading.Thread(target=server.serve_forever, daemon=True).start()
    click.echo(f"{address}\nThe page is shown until Ctrl-C, and is updated every {interval:g} s.")
    try:
        keep_new(live, renewed(history, page, live), interval, over)
    except KeyboardInterrupt:
        click.echo("Ended.", err=True)
    finally:
        live.end()
        server.shutdown()
        server.server_close()


def renewed(history: History, page: Callable[[], Page], live: Live) -> Callable[[], str]:
    """Return what looks once more; what cannot be asked is said, and tried again."""

    def again() -> str:
        try:
            look_and_keep(history)
        except (InventoryError, TpuError, click.ClickException) as error:
            click.echo(f"Nothing new: {visible(str(error))}", err=True)
            return live.html.decode()
        return html_of(page(), live=True)

    return again
