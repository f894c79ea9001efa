# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format durations for people. Private to tpu.fleet.

The run agent uses this file too, so it needs only Python 3.8.
"""

from __future__ import annotations


def long(seconds: float) -> str:
    """Format a duration for people; a clock that went back makes none."""
    for size, name, smaller, small in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 0, ""),
    ):
        if seconds >= size:
            rest = int(seconds % size // smaller) if smaller else 0
            return f"{int(seconds // size)} {name}" + (f" {rest} {small}" if rest else "")
    return f"{max(0, int(seconds))} s"
