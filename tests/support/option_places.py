"""All options of roles and all keys of the fleet file, by their place.

A place is the variable, and after dots the keys below it: `fleet_slices.data_disks.workers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import AROUND
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import role_keys
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notify import NOTIFIED
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import SELF_SETUP
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import (
    LISTS,
    PLAYBOOK_VARIABLES,
    SCALARS,
    Key,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    fleet_options,
    role_options,
)


def options_of_roles() -> dict[str, dict[str, Any]]:
    """Return all options of roles and the keys of their entries, by their place."""
    found: dict[str, dict[str, Any]] = {}

    def take(options: dict[str, Any], above: str) -> None:
        for name, option in options.items():
            found[f"{above}{name}"] = option
            take(option.get("options", {}), f"{above}{name}.")

    take(role_options(), "")
    return found


def keys_of_the_fleet_file() -> dict[str, Key]:
    """Return all keys of the schema, by their place."""
    found: dict[str, Key] = {}

    def take(keys: Mapping[str, Key], above: str) -> None:
        for name, key in keys.items():
            found[f"{above}{name}"] = key
            take(key.options, f"{above}{name}.")

    lists = {name: Key("list", options=keys) for name, keys in LISTS.items()}
    for keys in (SCALARS, PLAYBOOK_VARIABLES, AROUND, NOTIFIED, SELF_SETUP, lists):
        take(keys, "")
    take(role_keys(fleet_options()), "")
    return found
