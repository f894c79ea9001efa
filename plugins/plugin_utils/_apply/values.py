# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluate the variables of many hosts, equal templates once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.template import Templar

from .variables import is_template, made_of


class Values:
    """The variables of one host, evaluated on demand."""

    def __init__(self, raw: Mapping[str, Any], loader: Any, known: dict[Any, Any]) -> None:
        """`known` is shared by all hosts: equal templates with equal inputs are evaluated once."""
        self.raw = raw
        self._loader = loader
        self._known = known

    def evaluated(self, value: Any) -> Any:
        """Return the evaluated value; raise AnsibleError if it cannot be evaluated."""
        # A value without a template is returned at once; Ansible would need a millisecond for it.
        if not is_template(value):
            return value
        key = made_of(value, self.raw)
        if key is None or key not in self._known:
            found = Templar(loader=self._loader, variables=dict(self.raw)).template(value)
            if key is None:
                return found
            self._known[key] = found
        return self._known[key]

    def read(self, name: str, otherwise: Any = None) -> Any:
        """Return the evaluated value of a variable."""
        return self.evaluated(self.raw.get(name, otherwise))
