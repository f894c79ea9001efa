"""Look up the workers: in the list of this computer, or in the inventory."""

from __future__ import annotations

import configparser
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.worker_list import read_list

from .ansible_config import inventory_sources
from .hosts import Known, in_order, place_of
from .names import read_names, remember

T = TypeVar("T")


def read_known(sources: Sequence[str], environment: Mapping[str, str]) -> Known | None:
    """Return the workers of this fleet as they were read last, if they were."""
    found = read_list(sources, environment)
    return Known(found[1], found[0]) if found else None


def ask() -> Known:
    """Read the workers of the fleet in this folder from the API, and keep them."""
    from .read import PlayError, read_inventory

    inventory = read_inventory(fresh=True)
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import InventoryError

    try:
        return Known(*inventory.write_files())
    except InventoryError as error:
        raise PlayError(str(error)) from error


def known_fleet(refresh: bool) -> Known:
    """Return the fleet of this folder: as stored, or looked up again.

    A stored fleet without workers is looked up again too: a slice may have come since.
    """
    known, is_stored = _known(refresh)
    return (newer_than(known) or known) if is_stored and not known.names else known


def chosen(choose: Callable[[Known], T], refresh: bool | None = None) -> tuple[Known, T]:
    """Return the fleet of this folder, and what is chosen in it.

    `choose` raises ClickException where the fleet does not have what is wanted. What the stored
    fleet does not have may be on a slice that has come since: the API is asked once, unless
    `refresh` is False. If it is True, the API is asked first.
    """
    known, is_stored = _known(bool(refresh))
    try:
        return known, choose(known)
    except click.ClickException:
        newer = newer_than(known) if is_stored and refresh is None else None
        if newer is None:
            raise
    return newer, choose(newer)


def newer_than(known: Known) -> Known | None:
    """Return the fleet as the API has it; None if it has the workers of `known`, or no answer."""
    try:
        now = ask_or_say_why()
    except click.ClickException as error:
        click.echo(error.message, err=True)
        return None
    note_names(now)
    return None if now.names == known.names else now


def _known(refresh: bool) -> tuple[Known, bool]:
    """Return the fleet, and whether it is as stored on this computer."""
    stored = None
    try:
        if not refresh:
            stored = read_known(inventory_sources(os.environ, Path.cwd()), os.environ)
        known = stored or ask_or_say_why()
    except (OSError, configparser.Error) as error:
        raise click.ClickException(str(error)) from error
    note_names(known)
    return known, stored is not None


def ask_or_say_why() -> Known:
    """Look up the workers; print failures."""
    from .read import NoFleetError, PlayError

    try:
        return ask()
    except NoFleetError:
        raise
    except PlayError as error:
        raise click.ClickException(f"The fleet cannot be read: {error}") from error


def note_names(known: Known, runs: Sequence[str] = (), whole: bool = False) -> None:
    """Keep the names of a fleet for TAB; runs are added, or are all that there are."""
    sources = known.fleet.inventory
    if not sources:
        return
    before = () if whole else read_names(sources).get("runs", ())
    names = known.names
    remember(
        sources,
        slices=in_order({place_of(name, known.fleet.groups)[0] for name in names}),
        workers=names,
        runs=sorted({*before, *runs}),
    )
