# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as people write them (`512MiB`, `20GiB`), and which options of roles are such.

The units are binary, because those of Google's disks are, too: what its API and console call 10 GB
is 10 GiB. Argument specifications have no type for sizes. Machines use this too. No I/O.
"""

from __future__ import annotations

import re
from typing import Any

_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
# A whole number above zero with its unit; for schemas, which know no names of groups.
SIZE = "[1-9][0-9]*(KiB|MiB|GiB|TiB)"
# A share of a machine's memory is as good as a size.
MEMORY = f"{SIZE}|[1-9][0-9]?%|100%"
EXAMPLES = "512MiB, 20GiB or 1TiB"
MEMORY_EXAMPLES = "8GiB or 25%"
# Other ways to write a size: 20G, 20 GB, 20gib.
_ALMOST = re.compile("([1-9][0-9]*) ?([kmgt])(i?b)?", re.IGNORECASE)


def bytes_in(text: str) -> int | None:
    """Return the bytes of a size; None for any other text, such as a bare number."""
    if re.fullmatch(SIZE, text) is None:
        return None
    return int(text[:-3]) << _UNITS[text[-3:]]


def units_in(text: str, unit: str) -> int | None:
    """Return how many of a unit (`B`, `MiB`, `GiB`) a size has; None if it is no whole number."""
    found = bytes_in(text)
    whole, rest = divmod(found or 0, 1 << _UNITS[unit])
    return whole if found and not rest else None


def in_unit(value: Any, unit: str) -> int:
    """Return how many of a unit a size has; raise ValueError, with the remedy, for anything else.

    A size that is no whole number of them is refused as well.
    """
    if not isinstance(value, str) or bytes_in(value) is None:
        raise ValueError(f"{value!r} is not a size. {remedy_for(value)}.")
    found = units_in(value, unit)
    if found is None:
        raise ValueError(f"{value!r} is not a whole number of {unit}. Write it in {unit}.")
    return found


def text_of_size(amount: int, unit: str) -> str:
    """Return an amount of a unit as a size, in the largest unit of which it is a whole number.

    What is no whole number of KiB becomes the next larger one.
    """
    kib = -(-(amount << _UNITS[unit]) >> 10)
    for name in ("TiB", "GiB", "MiB"):
        whole, rest = divmod(kib, 1 << _UNITS[name] - 10)
        if whole and not rest:
            return f"{whole}{name}"
    return f"{kib}KiB"


def for_systemd(value: Any) -> str:
    """Return a size of memory, or a share of it, as systemd writes it: `8G`, `25%`.

    Raise ValueError, with the remedy, for anything else.
    """
    if not isinstance(value, str) or re.fullmatch(MEMORY, value) is None:
        raise ValueError(f"{value!r} is not a size or share of memory. {remedy_for_memory(value)}.")
    return value.removesuffix("iB")


def remedy_for(value: Any) -> str:
    """Return what to write in place of a value that is not a size."""
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if re.fullmatch("[1-9][0-9]*", text):
        return f"Write it with its unit, as {text}MiB or {text}GiB"
    return f"Write {meant(text) or EXAMPLES}"


def meant(text: str) -> str | None:
    """Return the size that a text like `20G`, `20 GB` or `20gib` means; None for others."""
    almost = _ALMOST.fullmatch(text)
    return f"{almost[1]}{almost[2].upper()}iB" if almost else None


def remedy_for_memory(value: Any) -> str:
    """Return what to write in place of a value that is no amount of memory."""
    found = remedy_for(value)
    return f"Write {MEMORY_EXAMPLES}" if found == f"Write {EXAMPLES}" else found


# By their place (the variable, and the key of its entries after a dot), with the unit in which the
# programs on machines take them.
SIZES = {
    "bucket_mount_buckets.cache_size": "MiB",
    "dataset_datasets.size": "B",
    "host_base_disk_guard_paths.max_size": "B",
    "host_base_journal_max_size": "MiB",
    "host_base_min_free": "MiB",
    "ray_cluster_object_store_size": "B",
    "run_queue_log_size": "B",
    "training_run_log_size": "B",
    "training_run_runs.compile_cache_size": "B",
    "training_run_runs.min_free": "B",
}
# Those that may also be a share of the machine's memory.
MEMORIES = frozenset(
    {
        "notebook_server_notebooks.memory_max",
        "ray_cluster_memory_max",
        "tensorboard_server_boards.memory_max",
    }
)
