# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for a slice that serves the queue. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._schema.keys import Problem
from ..._schema.refs import in_its_slice


def check_run_queue(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of what is declared for the queue."""
    return in_its_slice(data, "run_queue")
