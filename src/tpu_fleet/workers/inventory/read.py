"""Read the inventory of the fleet in this folder, in this process."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .ansible_config import inventory_sources, without_fleet

if TYPE_CHECKING:
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory


class PlayError(click.ClickException):
    """Ansible failed before it reached the hosts; the message is its own."""


class NoFleetError(PlayError):
    """Ansible has no inventory in this folder; the message says how to name one."""


def require_fleet() -> None:
    """Fail in a folder without a fleet, for which Ansible would show an empty one."""
    missing = without_fleet(os.environ, Path.cwd())
    if missing:
        raise NoFleetError(missing)


NO_HOSTS = "Specified inventory, host pattern and/or --limit leaves us with no hosts to target."
NO_HOSTS_MEANS = "--limit: no worker and no group is called so. See tpu-fleet status."


def read_inventory(fresh: bool = False) -> Inventory:
    """Return the inventory of this folder, read in this process; if fresh, not from a cache."""
    require_fleet()
    # Imported here, because most commands do not need Ansible.
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import (
        Inventory,
        InventoryError,
    )

    try:
        return Inventory.read(inventory_sources(os.environ, Path.cwd()), Path.cwd(), fresh)
    except InventoryError as error:
        raise PlayError(reason_of(str(error)) or str(error)) from error


def reason_of(said: str) -> str:
    """Return the inventory plugin's error from Ansible's output, without colours."""
    found = re.search(
        r"(?:Failed to parse inventory with '(?:auto|tpu\.fleet\.tpu)' plugin|^\[ERROR\]): (.+)",
        re.sub(r"\x1b\[[0-9;]*m", "", said),
        re.MULTILINE,
    )
    return in_words(found[1]) if found else ""


def in_words(text: str) -> str:
    """Return an error of Ansible's in the form of this program's, and what to do about it."""
    return text.replace("[ERROR]: ", "Error: ").replace(NO_HOSTS, NO_HOSTS_MEANS)
