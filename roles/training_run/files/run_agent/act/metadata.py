"""Ask the metadata server what it says of maintenance."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from ..decide.maintenance import Notice, notice
from ..decide.values import json_object
from .port_test import network_of

_ROOT = "/computeMetadata/v1/instance/"
_TIMEOUT = 5.0


def ask(url: str) -> tuple[dict[str, Any] | None, str]:
    """Return what both keys say; raises OSError when there is no such server."""
    event = (_get(url + _ROOT + "maintenance-event") or "").strip()
    text = _get(url + _ROOT + "upcoming-maintenance?alt=json")
    return json_object(text or "") or {}, event


def is_preempted(url: str) -> bool:
    """Return whether the machine is being taken back; raises OSError as `ask`."""
    return (_get(url + _ROOT + "preempted") or "").strip().upper() == "TRUE"


def _get(url: str) -> str | None:
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    # No proxy, and none of urllib, which alone is a fifth of the agent's memory.
    connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT)
    try:
        connection.request("GET", path, headers={"Metadata-Flavor": "Google"})
        answer = connection.getresponse()
        text = answer.read(65536).decode("utf-8", "replace")
        return text if answer.status == 200 else None  # 503 and 404: nothing is announced
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(str(error)) from None
    finally:
        connection.close()


class Watch:
    """Asks every few seconds, in a thread: a server that does not answer blocks nothing."""

    def __init__(
        self,
        url: str,
        every: float,
        look: Callable[[str], tuple[dict[str, Any] | None, str]] = ask,
        goes: Callable[[str], bool] = is_preempted,
    ) -> None:
        self.notice: Notice | None = None
        self.known = False  # whether the server ever answered
        self.preempted = False
        self.network = ""
        self.about = (url, every)
        self._url, self._every, self._look, self._goes = url, every, look, goes
        self._closed = threading.Event()
        if url:
            threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def _run(self) -> None:
        pause = self._every
        while not self._closed.is_set():
            try:
                self.notice = notice(*self._look(self._url))
                self.known = True
                self.network = self.network or network_of(self._url)
                self.preempted = self._goes(self._url)
                pause = self._every
            except OSError:
                # Not a machine of Google's, or one whose network is away: seldom, but for ever.
                pause = min(pause * 2, 60 * self._every)
            self._closed.wait(pause)
