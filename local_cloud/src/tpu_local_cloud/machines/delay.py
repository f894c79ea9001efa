"""Latency on the path to the small machines: packets are delayed in the hub.

Not every kernel has netem. So each packet between inside and outside takes a detour through this
process: in by one tunnel device and, half a round trip later, out by the other.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from .base import MachineError
from .helpers import helper_pid, sole, start_helper, stop_helper
from .hub import END_OF_DETOUR, INNER, OUTER, Hub, detour_words
from .layout import Layout, read_json, write_json
from .patience import wait_for

NAME = "delay"
START_LIMIT = 10.0
_TUNSETIFF = 0x400454CA
_TUN_WITHOUT_HEADER = 0x0001 | 0x1000
_LARGEST = 65536
# Packets that are read before the due ones are sent.
_AT_ONCE = 64


def _file(layout: Layout) -> Path:
    return layout.home / "delay.json"


def _ready(layout: Layout) -> Path:
    return layout.run_dir / "delay.ready"


def wanted(layout: Layout) -> float:
    """Return the requested round trip in milliseconds."""
    return float((read_json(_file(layout)) or {}).get("round_trip_ms", 0))


def change(layout: Layout, hub: Hub, milliseconds: float) -> None:
    """Set the round trip; zero removes the delay."""
    running = helper_pid(layout, NAME) is not None
    if running == bool(milliseconds) and milliseconds == wanted(layout):
        return
    stop_helper(layout, NAME)
    _ready(layout).unlink(missing_ok=True)
    write_json(_file(layout), {"round_trip_ms": milliseconds})
    if milliseconds:
        wrap = hub.wrap(hub.inside())
        start_helper(layout, NAME, __name__, str(milliseconds), wrap=wrap)
        if not wait_for(_ready(layout).exists, START_LIMIT):
            raise MachineError(f"the delay did not begin; see {layout.home / NAME}.log")


class Line:
    """One direction: packets read at one end leave at the other when they are due."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._held: deque[tuple[float, bytes]] = deque()

    def enter(self, packet: bytes, now: float) -> None:
        """Queue a packet."""
        self._held.append((now + self._delay, packet))

    def leave(self, now: float) -> list[bytes]:
        """Return the due packets."""
        due = []
        while self._held and self._held[0][0] <= now:
            due.append(self._held.popleft()[1])
        return due

    @property
    def next(self) -> float | None:
        """Return when the next packet is due."""
        return self._held[0][0] if self._held else None


def pump(ends: tuple[int, int], delay: float) -> None:
    """Carry packets between two devices, forever."""
    lines = {ends[0]: Line(delay), ends[1]: Line(delay)}
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    while True:
        now = time.monotonic()
        for end, line in lines.items():
            for packet in line.leave(now):
                _write(other[end], packet)
        moments = [line.next for line in lines.values() if line.next is not None]
        pause = max(0.0, min(moments) - time.monotonic()) if moments else None
        ready, _, _ = select.select(ends, [], [], pause)
        for end in ready:
            for _ in range(_AT_ONCE):
                try:
                    packet = os.read(end, _LARGEST)
                except BlockingIOError:
                    break
                lines[end].enter(packet, time.monotonic())


def _write(end: int, packet: bytes) -> None:
    try:
        os.write(end, packet)
    except OSError:
        # A network may drop packets.
        return


def _open(name: str) -> int:
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER))
    return handle


def _ip(words: list[str], check: bool = True) -> None:
    text = "".join(f"{line}\n" for line in words)
    command = ["ip", *([] if check else ["-force"]), "-batch", "-"]
    quiet = None if check else subprocess.DEVNULL
    subprocess.run(command, input=text, text=True, check=check, stderr=quiet)


def main() -> None:
    """Delay packets through the hub; runs in its namespace."""
    layout, delay = Layout(Path(sys.argv[1])), float(sys.argv[2]) / 2000
    lock = sole(layout, NAME)
    if lock is not None:
        with lock:
            ends = _open(OUTER), _open(INNER)
            _ip(END_OF_DETOUR, check=False)
            _ip(detour_words())
            _ready(layout).touch()
            pump(ends, delay)


if __name__ == "__main__":
    main()
