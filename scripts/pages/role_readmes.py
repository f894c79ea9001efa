"""roles/*/README.md: the hand-written text, with the table of the role's variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import role_keys
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import Key
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import (
    FLEET_NAMES,
    fleet_name,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import ROLES, options_of

from . import filled
from .fleet_file import (
    HEAD_WITH_DEFAULT,
    example_sections,
    given_by_playbooks,
    keys_table,
    kind_of,
    text_of,
)

OF_PLAYBOOKS = "The playbooks of the collection give these their values:"


def page(role: str) -> str:
    """Return the README of a role with its current tables."""
    return filled(ROLES / role / "README.md", {"variables": lambda: variables_tables(role)})


def variables_tables(role: str) -> str:
    """Return the variables of a role, with the keys of those that the fleet file's page leaves out.

    Those that a fleet file sets come first.
    """
    options, keys, shown = options_of(role), role_keys(options_of(role)), example_sections()
    given = given_by_playbooks(role)
    told = {
        name: {**option, "description": text_of(option["description"])}
        for name, option in options.items()
    }
    for name, key in keys.items():
        if name in FLEET_NAMES:
            told[name]["description"] += f" In the fleet file `{FLEET_NAMES[name]}`."
        if key.options and fleet_name(name) in shown:
            told[name]["description"] += (
                f" [Its keys](../../docs/fleet-file.md#{fleet_name(name)})."
            )
    parts = ["## Variables", _table({n: k for n, k in keys.items() if n not in given}, told)]
    for name, key in keys.items():
        if key.options and fleet_name(name) not in shown:
            parts += [f"{kind_of(key)} of `{name}`:"]
            parts.append(_table(key.options, options[name]["options"]))
    if given:
        parts += [OF_PLAYBOOKS, _table({n: k for n, k in keys.items() if n in given}, told)]
    return "\n\n".join(parts)


def _table(keys: Mapping[str, Key], told: Mapping[str, Any]) -> str:
    return keys_table(keys, told, HEAD_WITH_DEFAULT)
