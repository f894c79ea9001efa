# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which declared entries are for one slice. No I/O. Private to tpu.fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Entry = TypeVar("Entry", bound=Mapping[str, Any])


def is_on(entry: Mapping[str, Any], slice_name: str) -> bool:
    """Return whether an entry is for a slice. An entry without slices is for all of them."""
    return not entry.get("slices") or slice_name in entry["slices"]


def on_slice(entries: Iterable[Entry], slice_name: str) -> list[Entry]:
    """Return the entries for a slice."""
    return [entry for entry in entries if is_on(entry, slice_name)]


def names_on(entries: Iterable[Entry], slice_name: str) -> frozenset[str]:
    """Return the names of the entries for a slice, such as the environments that it may have."""
    return frozenset(str(entry["name"]) for entry in on_slice(entries, slice_name))
