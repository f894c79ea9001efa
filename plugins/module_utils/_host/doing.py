# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what a module does or waits for while it runs, to the controller that follows the play.

A module's result comes at its end. On a machine that applies the roles to itself, the events of the
play are in a file, which is sent line by line.
"""

from __future__ import annotations

import contextlib
import json
import os


def report(what: str) -> None:
    """Add one event to the play's; do nothing where there is no such file."""
    path = os.environ.get("TPU_FLEET_EVENTS", "")
    if path:
        # The work is more important than the report.
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as events:
            events.write(json.dumps({"event": "doing", "what": what}) + "\n")
