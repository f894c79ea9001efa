# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report how far a playbook is, as data, to the program that runs it.

A line of JSON for each event, in the file that TPU_FLEET_PROGRESS names; without it, nothing. What
people read is printed by the actions themselves.
"""

from __future__ import annotations

import json
import os
from typing import Any

VARIABLE = "TPU_FLEET_PROGRESS"


def note(event: str, **said: Any) -> None:
    """Write an event; whole, because tasks of several processes may write at once."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    line = f"{json.dumps({'event': event, **said}, default=str)}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, line)
    finally:
        os.close(file)
