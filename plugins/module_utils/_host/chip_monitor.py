# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read libtpu's monitoring port, on which a program that holds chips answers. Private to tpu.fleet.

The port is the program's, and any user of the machine may hold it: each value is bounded or the
whole answer is refused. The fields are those of tpu-info's messages (tpu.monitoring.runtime).
The run agent, the exporter and what looks for the cause of a hang use it; needs only Python 3.8.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from .grpc_call import NoAnswer, Refused, call
from .listeners import name_of, of_port

PORT = 8431
SECONDS, LONGER = 2.0, 5.0
"""How long all calls of one look may take together; and where nothing waits for it."""
SERVICE = "/tpu.monitoring.runtime.RuntimeMetricService/"
DUTY_CYCLE, USED, TOTAL, IDLE = (
    "duty_cycle_percent", "memory_used_bytes", "memory_bytes", "idle_seconds"
)  # fmt: skip
METRICS = {
    DUTY_CYCLE: ("tpu.runtime.tensorcore.dutycycle.percent", 100),
    USED: ("tpu.runtime.hbm.memory.usage.bytes", 1 << 50),
    TOTAL: ("tpu.runtime.hbm.memory.total.bytes", 1 << 50),
    IDLE: ("tpu.runtime.tensorcore.idle_duration.seconds", 1 << 32),
}
"""What each is called there, and its largest value; the least is 0."""
CORES = 64
"""Cores of a machine, and entries of any list."""
TEXT = 300
"""Characters of a text."""
_NO_TEXT = re.compile(r"[^\x20-\x7e\xa1-\u2027\u202f-\u205f\u2070-\ud7ff]+")
Ask = Callable[[str, bytes], bytes]


# The wire format of protobuf


def _number(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        found |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return found & ((1 << 64) - 1), at
    raise Refused("its answer is no message of the runtime")


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: a number, its eight bytes, or bytes; or refuse."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _number(data, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind, -1)
        if kind == 2:
            size, at = _number(data, at)
        if not 0 <= size <= len(data) - at:
            raise Refused("its answer is no message of the runtime")
        yield key >> 3, data[at : at + size]
        at += size


class _Message:
    """The fields of a message; of one that is there several times the last counts, or all."""

    def __init__(self, data: Any) -> None:
        if not isinstance(data, bytes):
            raise Refused("its answer is no message of the runtime")
        self._fields: dict[int, list[Any]] = {}
        for number, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def last(self, number: int) -> Any:
        return self._fields[number][-1] if number in self._fields else None

    def message(self, number: int) -> _Message:
        found = self.last(number)
        return _Message(b"" if found is None else found)

    def all(self, number: int) -> list[_Message]:
        found = self._fields.get(number, [])
        if len(found) > CORES:
            raise Refused(f"its answer has a list of {len(found)}, not of at most {CORES}")
        return [_Message(one) for one in found]

    def whole(self, number: int, least: int = 0, most: int = (1 << 63) - 1) -> int | None:
        """Return a whole number within bounds; None if it is not there."""
        value = self.last(number)
        if value is None:
            return None
        if not isinstance(value, int):
            raise Refused("its answer is no message of the runtime")
        value -= (value >> 63) << 64
        if not least <= value <= most:
            raise Refused(f"its answer has {value}, not a whole number from {least} to {most}")
        return value

    def real(self, number: int) -> float | None:
        value = self.last(number)
        if value is None:
            return None
        if not isinstance(value, bytes) or len(value) != 8:
            raise Refused("its answer is no message of the runtime")
        return float(struct.unpack("<d", value)[0])

    def bytes(self, number: int) -> bytes:
        value = self.last(number)
        if value is not None and not isinstance(value, bytes):
            raise Refused("its answer is no message of the runtime")
        return value or b""

    def text(self, number: int) -> str | None:
        value = self.bytes(number).decode("utf-8", "replace")
        return _NO_TEXT.sub(" ", value).strip()[:TEXT] or None

    def hexadecimal(self, number: int) -> str | None:
        return self.bytes(number)[:32].hex() or None


# What the messages say


def metric(name: str, answer: bytes) -> dict[int, float]:
    """Return a metric of METRICS for each device, from a MetricResponse; or refuse."""
    found: dict[int, float] = {}
    for one in _Message(answer).message(1).all(3):
        device = one.message(1).message(2).whole(3, most=1 << 31)
        gauge, most = one.message(3), METRICS[name][1]
        value = gauge.real(1)
        value = gauge.whole(2) if value is None else value
        if value is None:
            continue
        if not 0 <= value <= most:  # Also what is no number.
            raise Refused(f"its {name} is {value}, not from 0 to {most}")
        found[device or 0] = value
    return found


def cores(answer: bytes) -> list[dict[str, Any]]:
    """Return the state of each core, from a GetTpuRuntimeStatusResponse; or refuse."""
    entries = [(one.whole(1, most=1 << 31) or 0, one.message(2)) for one in _Message(answer).all(2)]
    return [_core(number, core) for number, core in sorted(entries, key=lambda entry: entry[0])]


def _core(number: int, core: _Message) -> dict[str, Any]:
    sequencers = core.all(2)
    running = sequencers[0] if sequencers else _Message(b"")
    found = {
        "core": number,
        "chip": core.message(1).whole(2, most=1 << 31) or 0,
        "run_id": running.whole(7),
        "launch_id": core.whole(5),
        "program": core.hexadecimal(4),
        "hlo": running.text(8),
        "queued": [
            {"run_id": one.whole(1), "launch_id": one.whole(2), "program": one.hexadecimal(3)}
            for one in core.all(6)
        ],
        "error": core.text(7),
    }
    return {**found, "state": _state(found)}


def _state(core: dict[str, Any]) -> str:
    """Return what a core does: error, running, queued (it has yet to begin), or idle."""
    if core["error"]:
        return "error"
    if core["program"]:
        return "running"
    return "queued" if core["queued"] else "idle"


# A look


def _asker(port: int, seconds: float) -> Ask:
    ends = time.monotonic() + seconds

    def ask(method: str, message: bytes) -> bytes:
        return call(port, SERVICE + method, message, ends)

    return ask


def _metrics(ask: Ask) -> dict[str, dict[int, float]]:
    """Return each metric by device; one that this libtpu does not have is left out."""
    found = {}
    for name, (called, _most) in METRICS.items():
        text = called.encode()
        answer = _optional(ask, "GetRuntimeMetric", b"\x0a" + bytes([len(text)]) + text)
        if answer is not None:
            found[name] = metric(name, answer)
    return {name: values for name, values in found.items() if values}


def _optional(ask: Ask, method: str, message: bytes) -> bytes | None:
    try:
        return ask(method, message)
    except NoAnswer:
        return None


def stranger(uids: set[int], port: int = PORT) -> str:
    """Return the user who listens on the port and is none of these; empty if there is none."""
    return next((name_of(one.uid) for one in of_port(port) if one.uid not in uids), "")


def look(
    uids: set[int], port: int = PORT, seconds: float = SECONDS, hlo: bool = True
) -> dict[str, Any]:
    """Return what the port says, if one of these users has it; never raise for what is there.

    `reached` is false where nothing listens; `refused` has the reason why an answer does not count,
    and then nothing else of it is there. `cores` has for each core its number, its chip, `state`
    (running, queued, idle or error), `run_id`, `launch_id`, `program` (a fingerprint in hex),
    `hlo` (where the program stands), the `queued` programs and `error`. `metrics` has each of
    METRICS by device. `hlo` asks for the place in the program, which takes libtpu more time.
    """
    other = stranger(uids, port)
    if other:
        return {"reached": True, "refused": f"{other} has the port, who has no part in it"}
    ask = _asker(port, seconds)
    try:
        return {
            "reached": True,
            "metrics": _metrics(ask),
            "cores": cores(_optional(ask, "GetTpuRuntimeStatus", b"\x08\x01" * hlo) or b""),
        }
    except Refused as error:
        return {"reached": True, "refused": str(error)}
    except socket.timeout:  # noqa: UP041 - Python 3.8 has two
        return {"reached": True, "refused": f"it does not answer within {seconds:g} s"}
    except OSError:
        return {"reached": False}


def figures(uids: set[int], port: int = PORT, seconds: float = LONGER) -> dict[str, Any]:
    """Return the metrics by device alone, if one of these users has the port; else nothing.

    Nothing either where no program answers, or not with metrics.
    """
    if stranger(uids, port):
        return {}
    try:
        return _metrics(_asker(port, seconds))
    except (OSError, Refused):
        return {}
