# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer one request, a JSON object in sys.argv; or, started by a unit, what needs no controller.

That is to repeat all wishes, for the timer, and to build an environment, for the queue.
"""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from .place import Place
from .session import Session
from .talk import PROTOCOL, Line
from .work import Engine


def main() -> int:
    """Talk to the controller over the standard streams; return the exit code."""
    os.umask(0o022)
    place = Place()
    if sys.argv[1] == "again":
        # The timer has no controller to ask for files; all files of the kept wishes are here.
        line = Line(io.BytesIO(), sys.stdout.buffer)
        return Session(place, line, _engine_of(place)).again()
    if sys.argv[1] == "need":
        # Only slices that serve the queue pay for the import.
        from .need import main as need

        return need(place, _engine_of(place), sys.argv[2])
    line = Line(sys.stdin.buffer, sys.stdout.buffer)
    request = json.loads(sys.argv[1])
    if request.get("protocol") != PROTOCOL:
        line.say("result", status="failed", problem=f"this host speaks protocol {PROTOCOL}")
        return 1
    return Session(place, line, _engine_of(place)).be(request)


def _engine_of(place: Place) -> Engine:
    # Most calls find nothing to apply, and are faster without this import.
    def engine(*words: Any) -> Path:
        from .engine import engine_of

        return engine_of(place)(*words)

    return engine
