"""Look up the workers: in the list of this computer, or in the inventory."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.worker_list import read_list

from .ansible_config import inventory_sources
from .hosts import Known, in_order, place_of
from .names import read_names, remember


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
    """Return the fleet of this folder: as stored, or looked up again."""
    stored = None
    try:
        if not refresh:
            stored = read_known(inventory_sources(os.environ, Path.cwd()), os.environ)
        known = stored or ask_or_say_why()
    except (OSError, configparser.Error) as error:
        raise click.ClickException(str(error)) from error
    note_names(known)
    return known


def ask_or_say_why() -> Known:
    """Look up the workers; print failures."""
    from .read import NoFleetError, PlayError

    try:
        return ask()
    except NoFleetError as error:
        raise click.ClickException(str(error)) from error
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
