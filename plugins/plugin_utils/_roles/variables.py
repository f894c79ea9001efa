# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of one role, as they are on a host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2.runtime import Context
from jinja2.utils import missing

from ...module_utils._schema.keys import UNREADABLE
from ...module_utils._schema.names import FLEET_NAMES, PARTS, fleet_name, own_names
from ...module_utils._schema.off import OFF_BY_NULL
from .specs import options_of

# What a role has of another one, under a name of its own.
_OF_OTHERS = {"fleet_venvs": "venvs", "fleet_users": "users"}


class RoleVariables(Mapping[str, Any]):
    """What a role knows: the variables that its argument specification names.

    A variable without a value has that of its name in the fleet file. Both names lead to it, as
    rules are written for the fleet file. The role does not know the rest of that, so rules have
    nothing to compare with there.
    """

    def __init__(self, role: str, context: Context) -> None:
        self._role, self._context, self._options = role, context, options_of(role)
        self._own = own_names(role)

    def __getitem__(self, name: str) -> Any:
        value = self._value(name)
        if value is missing:
            raise KeyError(name)
        return value

    def there(self) -> dict[str, Any]:
        """Return the variables that have a value, by name."""
        values = {name: self._value(name) for name in self._options}
        return {name: value for name, value in values.items() if value is not missing}

    def names(self) -> dict[str, str]:
        """Return the own names of what was given by them, by the names of the fleet file.

        Where nothing at all is by the names of the fleet file, that is everything.
        """
        if not any(self._declared(name) is not missing for name in FLEET_NAMES.values()):
            return {name: own for own, name in FLEET_NAMES.items()} | self._own
        return {name: own for name, own in self._own.items() if self._is_own(own, name)}

    def _is_own(self, own: str, name: str) -> bool:
        value, declared = self._declared(own), self._declared(name)
        if declared is missing:
            declared = self._options[own].get("default", missing)
        return value is not missing and value != declared

    def _declared(self, name: str) -> Any:
        return self._context.resolve_or_missing(name)

    def _value(self, name: str) -> Any:
        name = own = self._own.get(name, name)
        if not name.startswith(f"{self._role}_"):
            own = f"{self._role}_{_OF_OTHERS.get(name)}"
            if own not in self._options:
                # Ansible's own login is no user that a role makes.
                return None if name == "fleet_ssh_user" else UNREADABLE
        if own not in self._options:
            return missing
        value = self._declared(own)
        if value is missing:
            value = self._declared(fleet_name(own))
            value = PARTS[own](value) if own in PARTS and value is not missing else value
        if value is missing or (value is None and own not in OFF_BY_NULL):
            # Nothing behind the colon is as good as no variable.
            return self._options[own].get("default", value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)
