# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of roles that are durations or sizes, and what machines get of them. No I/O.

Machines use this too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .durations import DURATIONS, seconds
from .sizes import MEMORIES, SIZES, for_systemd, in_unit

# By their place: the variable, and the key of its entries after a dot. They are types of Key, too.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(DURATIONS, "duration"),
    **dict.fromkeys(SIZES, "size"),
    **dict.fromkeys(MEMORIES, "memory"),
}


def for_machines(name: str, value: Any) -> Any:
    """Return a value of an option with all amounts in it as programs on machines take them.

    Durations become seconds, sizes numbers of their unit, those of memory a text for systemd. None
    stays. Raise ValueError, with field and remedy, for what is not such an amount.
    """
    if name in KINDS:
        return None if value is None else _converted(name, value)
    if isinstance(value, Mapping):
        return {key: for_machines(f"{name}.{key}", part) for key, part in value.items()}
    if isinstance(value, list):
        return [for_machines(name, part) for part in value]
    return value


def _converted(name: str, value: Any) -> int | str:
    try:
        if KINDS[name] == "duration":
            return seconds(value)
        return for_systemd(value) if KINDS[name] == "memory" else in_unit(value, SIZES[name])
    except ValueError as error:
        raise ValueError(f"{name} = {error}") from None
