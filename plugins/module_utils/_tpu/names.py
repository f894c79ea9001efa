# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of groups and variables of workers, and the order of names. No I/O."""

from __future__ import annotations

import re

GROUP_USABLE = "tpu"
GROUP_UNAVAILABLE = "tpu_unavailable"
GROUP_LEADERS = "tpu_leaders"
# Empty in the inventory: apply_roles.yml fills it, and its second play uses it.
GROUP_UNFINISHED = "tpu_unfinished"
# A variable of all hosts whose listing comes from a cache.
FROM_CACHE = "tpu_vm_from_cache"


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts w10 after w9."""
    parts = re.split(r"(\d+)", text)
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts if p)


def group_name(*parts: str) -> str:
    """Return a valid group name made of words that may have dots and dashes."""
    return re.sub(r"[^a-z0-9_]", "_", "_".join(parts).lower())
