# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol between a controller and a host, over the standard streams of one command.

The host writes one JSON object a line. Files that it asks for arrive as a line `file NAME SIZE`
followed by as many bytes, or as a line `from NAME URL` if a peer has them; what its peers found out
arrives as one line of JSON.
"""

from __future__ import annotations

import json
import threading
from typing import Any, BinaryIO, Dict, Sequence

from .store import Store, StoreError

PROTOCOL = 1


def line_of(what: str, /, **more: Any) -> bytes:
    """Return a message as it is sent."""
    return json.dumps({"say": what, **more}).encode() + b"\n"


class Line:
    """The host's end of the connection."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading = reading
        self._writing = writing
        self._lock = threading.Lock()
        # The controller is gone; the work continues.
        self.lost = False

    def say(self, what: str, /, **more: Any) -> None:
        """Send a message to the controller, if it is still connected."""
        data = line_of(what, **more)
        with self._lock:
            if self.lost:
                return
            try:
                self._writing.write(data)
                self._writing.flush()
            except OSError:
                self.lost = True

    def fetch(self, store: Store, names: Sequence[str]) -> None:
        """Ask for files and store them."""
        missing = store.missing(names)
        if not missing:
            return
        self.say("need", files=missing)
        wanted = set(missing)
        while wanted:
            words = self._reading.readline(256).decode("ascii", "replace").split()
            if not words:
                raise StoreError("the connection was lost before all files had arrived")
            if len(words) == 3 and words[0] == "from" and words[1] in wanted:
                # Imported late: a host that has all files does not need it.
                from . import share

                try:
                    share.get(words[2], store, words[1])
                    wanted.remove(words[1])
                except (OSError, ValueError, StoreError):
                    self.say("need", files=[words[1]], direct=True)
                continue
            if len(words) != 3 or words[0] != "file" or not words[2].isdigit():
                raise StoreError(f"the controller does not use protocol {PROTOCOL}: {words}")
            if words[1] not in wanted:
                raise StoreError(f"not asked for: {words[1]}")
            store.receive(self._reading, words[1], int(words[2]))
            wanted.remove(words[1])

    def peers(self) -> Dict[str, Any]:
        """Ask for what other workers of the slice found out, by host; it may take long."""
        self.say("peers")
        line = self._reading.readline()
        if not line.endswith(b"\n"):
            raise StoreError("the connection was lost before the work began")
        found: Dict[str, Any] = json.loads(line)
        return found
