# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of buckets that depend on where a machine is: `gs://lab-{region}/lm`. No I/O.

Runs on Python 3.8.
"""

from __future__ import annotations

import re
from typing import Any

PLACEHOLDERS = ("{region}", "{zone}")
EXAMPLE = "us-central1-a"
"""A zone to check names with."""
REMEDY = "Write {region} or {zone}, which become those of the machine"
_OTHER = re.compile(r"\{[^{}]*\}")
_ADDRESS = re.compile(r"gs://[^\s\"'`|&;<>(),]+")


def region_of(zone: str) -> str:
    """Return the region of a zone."""
    return zone.rpartition("-")[0]


def in_zone(text: str, zone: str) -> str:
    """Return a name or an address for a machine in a zone; without a zone it stays as it is."""
    if not zone:
        return text
    return text.replace("{region}", region_of(zone)).replace("{zone}", zone)


def with_addresses(value: Any, zone: str) -> Any:
    """Return a text with its `gs://` addresses for a machine in a zone; all else stays."""
    if not isinstance(value, str):
        return value
    return _ADDRESS.sub(lambda found: in_zone(found[0], zone), value)


def addresses_in(value: Any) -> list[str]:
    """Return the `gs://` addresses in a text, as they are written."""
    return _ADDRESS.findall(value) if isinstance(value, str) else []


def varies(text: str) -> bool:
    """Return whether it is another text in another zone."""
    return any(word in text for word in PLACEHOLDERS)


def unknown_placeholder(text: str) -> str:
    """Return what is in braces and is neither region nor zone; empty if there is none."""
    return next((one for one in _OTHER.findall(text) if one not in PLACEHOLDERS), "")
