"""Report to systemd: one line of text, whatever is in it, and when the agent is ready."""

from __future__ import annotations

import contextlib
import os
import socket

from ..decide.values import one_line


def datagram(text: str) -> bytes:
    """Return the one assignment that is sent: what is in the text can be no other."""
    return b"STATUS=" + one_line(text).encode("utf-8", "replace")


def tell(text: str, ready: bool = False) -> None:
    """Show a text in `systemctl status`, and report that signals are handled."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto((b"READY=1\n" if ready else b"") + datagram(text), address)
