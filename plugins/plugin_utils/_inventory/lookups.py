# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Note what templates read besides the inventory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ansible.plugins.loader import lookup_loader

_ENVIRONMENT = ("env", "ansible.builtin.env", "ansible.legacy.env")


@dataclass
class Lookups:
    """What lookups have read."""

    environment: set[str] = field(default_factory=set)
    """Variables of the environment."""
    others: set[str] = field(default_factory=set)
    """Lookups that read something else: files, output of programs."""

    def note(self, name: str, terms: Iterable[Any]) -> None:
        """Note one lookup."""
        if name in _ENVIRONMENT:
            self.environment.update(str(term).split()[0] for term in terms)
        else:
            self.others.add(name)


@contextlib.contextmanager
def noted() -> Iterator[Lookups]:
    """Note the lookups of all templates that this process evaluates meanwhile."""
    found = Lookups()
    get = lookup_loader.get

    def noting(name: str, *args: Any, **more: Any) -> Any:
        plugin = get(name, *args, **more)
        if plugin is not None:
            run = plugin.run

            def noting_run(terms: Any, *args: Any, **more: Any) -> Any:
                found.note(name, terms)
                return run(terms, *args, **more)

            plugin.run = noting_run
        return plugin

    loader = vars(lookup_loader)
    loader["get"] = noting
    try:
        yield found
    finally:
        del loader["get"]
