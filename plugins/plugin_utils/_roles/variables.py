# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of one role, as they are on a host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2.runtime import Context
from jinja2.utils import missing

from ...module_utils._schema.keys import UNREADABLE
from .specs import options_of

# What a role has of another one, under a name of its own.
_OF_OTHERS = {"python_env_venvs": "venvs", "user_accounts_users": "users"}


class RoleVariables(Mapping[str, Any]):
    """What a role knows: the variables that its argument specification names.

    It does not know the rest of the fleet file, so rules have nothing to compare with there.
    """

    def __init__(self, role: str, context: Context) -> None:
        self._role, self._context, self._options = role, context, options_of(role)

    def __getitem__(self, name: str) -> Any:
        value = self._value(name)
        if value is missing:
            raise KeyError(name)
        return value

    def there(self) -> dict[str, Any]:
        """Return the variables that have a value, by name."""
        values = {name: self._value(name) for name in self._options}
        return {name: value for name, value in values.items() if value is not missing}

    def _value(self, name: str) -> Any:
        own = name
        if not name.startswith(f"{self._role}_"):
            own = f"{self._role}_{_OF_OTHERS.get(name)}"
            if own not in self._options:
                # Ansible's own login is no user that a role makes.
                return None if name == "fleet_ssh_user" else UNREADABLE
        if own not in self._options:
            return missing
        value = self._context.resolve_or_missing(own)
        return self._options[own].get("default", missing) if value is missing else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)
