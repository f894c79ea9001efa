"""What a profile of XLA's profiler (an XSpace) has of devices and of waits for input.

The library protobuf parses the file, whose fields are declared here as far as they are read: in
Python alone, a profile with a million events would take a minute. Times are whole picoseconds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_DEVICE = re.compile(r"/device:(?!CUSTOM)[A-Za-z]+:\d+")
_HOST = "/host:CPU"
_ABOUT = "Task Environment"
_OPERATIONS = "XLA Ops"
"""The line of a TPU that has what the chip computes, nested as it is called."""
_OTHERS = frozenset({"Steps", "XLA Modules", "XLA TraceMe", "Framework Ops", "Source code"})
# What starts a program on a device: where it is in a thread, that thread is the training loop.
_STARTS = re.compile(r"PjitFunction|SyncTensorsGraph|.*Executable::Execute")
# What the training loop waits in for its next batch: iterators and queues of Python, of tf.data,
# and transfers to the device.
_WAITS = re.compile(
    r"\$builtins next|\$\S+ __next__|\$queue\.py:\d+ get|\$\S+ device_put"
    r"|(Iterator|InfeedEnqueue).*|.*(BufferFromHost|TransferToDevice).*"
)


MOST_BYTES = 1 << 26
MOST_EVENTS = 4_000_000
"""What is summed up takes at most some two gigabytes of memory."""


class TraceError(ValueError):
    """A file is no profile."""


class TooLargeError(ValueError):
    """A profile is too large to be summed up here."""


class Operation(NamedTuple):
    """An operation of a device, or a call of the host. A profile can have millions."""

    name: str
    begin: int
    end: int
    kind: str = ""
    """XLA's category; empty where the profile has none, as on CPUs."""


@dataclass
class Device:
    """A chip, or the CPUs that JAX takes for one."""

    name: str
    lines: list[list[Operation]] = field(default_factory=list)
    """What runs after each other; on CPUs one line for each thread."""


@dataclass
class Trace:
    """A profile of one process."""

    begin: int
    end: int
    devices: list[Device]
    waits: list[tuple[int, int]] = field(default_factory=list)
    """When the training loop waited for its next batch."""
    loop: list[Operation] = field(default_factory=list)
    """What the training loop did, one after the other: calls that start programs, or are outermost
    among those that start none."""


def read(path: Path, iterators: Sequence[str] = ()) -> Trace:
    """Read a file, which may be from a hostile worker; raises TraceError, TooLargeError, OSError.

    `iterators` are the generator functions that ran, as file:line name.
    """
    space = _parsed(path)
    planes = [_Plane(plane) for plane in space.planes]
    devices = [device for plane in planes for device in plane.devices()]
    trace = Trace(*_window(planes, devices), devices)
    for thread in (one for plane in planes if plane.name == _HOST for one in plane.loops()):
        trace.waits += thread.waits({f"${name}" for name in iterators})
        trace.loop += thread.outermost()
    return trace


def _parsed(path: Path) -> Any:
    from google.protobuf.message import DecodeError

    space = _types()["XSpace"]()
    too_large = f"{path.name} is too large to be summed up here: XProf opens it"
    if path.stat().st_size > MOST_BYTES:
        raise TooLargeError(too_large)
    try:
        space.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise TraceError(f"{path.name} is no profile of XLA") from error
    if sum(len(line.events) for plane in space.planes for line in plane.lines) > MOST_EVENTS:
        raise TooLargeError(too_large)
    return space


def _window(planes: Iterable[_Plane], devices: Iterable[Device]) -> tuple[int, int]:
    """Return when the profile begins and ends."""
    about = {name: at for plane in planes if plane.name == _ABOUT for name, at in plane.numbers()}
    noted = (about.get("profile_start_time", 0) * 1000, about.get("profile_stop_time", 0) * 1000)
    lines = [line for device in devices for line in device.lines if line]
    if not lines:
        return noted
    seen = (
        min(one.begin for line in lines for one in line),
        max(one.end for line in lines for one in line),
    )
    # Some versions note nothing, or count the devices' times from zero.
    fits = noted[0] < noted[1] and noted[0] <= seen[1] and seen[0] <= noted[1]
    return noted if fits else seen


class _Plane:
    """A part of the profile: a device, the host, or what holds for the whole."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane
        self.name = _text(plane.name)
        self._events = {entry.key: entry.value for entry in plane.event_metadata}
        self._names = {one: _text(found.name) for one, found in self._events.items()}
        self._stats = {entry.key: _text(entry.value.name) for entry in plane.stat_metadata}
        self._known = {
            one: (self._short(one, found), self._kind(found)) for one, found in self._events.items()
        }

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Yield name and value of each whole number that the plane itself has."""
        for stat in self._plane.stats:
            yield self._stats.get(stat.metadata_id, ""), stat.uint64_value or stat.int64_value

    def devices(self) -> list[Device]:
        """Return the devices whose operations this plane has."""
        if _DEVICE.fullmatch(self.name):
            return [Device(self.name.removeprefix("/device:"), list(self._of_device()))]
        return self._of_host() if self.name == _HOST else []

    def _of_device(self) -> Iterator[list[Operation]]:
        lines = [(_text(line.name), line) for line in self._plane.lines]
        operations = [line for name, line in lines if name == _OPERATIONS]
        for line in operations or [line for name, line in lines if name not in _OTHERS]:
            yield self._operations(line, line.events)

    def _of_host(self) -> list[Device]:
        """Return the CPUs as devices, with a line for each thread that computes."""
        found: dict[int, Device] = {}
        of_program, ordinal = self._stat_named("hlo_op"), self._stat_named("device_ordinal")
        for line in self._plane.lines:
            here: dict[int, list[Any]] = defaultdict(list)
            for event in line.events:
                stats = {stat.metadata_id: stat for stat in event.stats}
                if of_program in stats:
                    here[stats[ordinal].int64_value if ordinal in stats else 0].append(event)
            for number, events in here.items():
                device = found.setdefault(number, Device(f"CPU:{number}"))
                device.lines.append(self._operations(line, events))
        return [found[number] for number in sorted(found)]

    def loops(self) -> Iterator[_Loop]:
        """Yield the threads that start programs."""
        starts = {one for one, name in self._names.items() if _STARTS.match(name)}
        for line in self._plane.lines:
            if any(event.metadata_id in starts for event in line.events):
                yield _Loop(self._operations(line, line.events))

    def _stat_named(self, name: str) -> int:
        return next((one for one, found in self._stats.items() if found == name), -1)

    def _operations(self, line: Any, events: Iterable[Any]) -> list[Operation]:
        known, base, found = self._known, line.timestamp_ns * 1000, []
        for event in events:
            name, kind = known.get(event.metadata_id, ("", ""))
            begin = base + event.offset_ps
            found.append(Operation(name, begin, begin + max(0, event.duration_ps), kind))
        return found

    def _short(self, one: int, found: Any) -> str:
        """Return the short name: that of a TPU's operation is a whole line of its program."""
        short = _text(found.display_name)
        return short or self._names[one].partition(" = ")[0].lstrip("%")

    def _kind(self, found: Any) -> str:
        for stat in found.stats:
            if self._stats.get(stat.metadata_id) == "hlo_category":
                return _text(stat.str_value) or self._stats.get(stat.ref_value, "")
        return ""


class _Loop:
    """A thread that starts programs: what it calls, of which some starts a program."""

    def __init__(self, calls: Iterable[Operation]) -> None:
        self._calls = sorted(calls, key=lambda one: (one.begin, -one.end))
        self._is_start = {
            one: bool(_STARTS.match(one)) for one in {one.name for one in self._calls}
        }
        self._starts = [one.begin for one in self._calls if self._is_start[one.name]]

    def waits(self, iterators: Container[str]) -> Iterator[tuple[int, int]]:
        """Yield when it waits for input; what starts a program meanwhile is no wait."""
        waits = {one for one in self._is_start if one in iterators or _WAITS.fullmatch(one)}
        for one in self._calls:
            if one.name in waits and not self._has_start(one):
                yield one.begin, one.end

    def outermost(self) -> Iterator[Operation]:
        """Yield the calls that start a program, and between them the outermost of the others."""
        until = 0
        for one in self._calls:
            if one.begin >= until and (self._is_start[one.name] or not self._has_start(one)):
                until = one.end
                yield one

    def _has_start(self, call: Operation) -> bool:
        at = bisect_left(self._starts, call.begin)
        return at < len(self._starts) and self._starts[at] < call.end


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "XSpace": {"planes": (1, "XPlane*")},
    "XPlane": {
        "name": (2, "bytes"),
        "lines": (3, "XLine*"),
        "event_metadata": (4, "EventEntry*"),
        "stat_metadata": (5, "StatEntry*"),
        "stats": (6, "XStat*"),
    },
    "XLine": {"name": (2, "bytes"), "timestamp_ns": (3, "int64"), "events": (4, "XEvent*")},
    "XEvent": {
        "metadata_id": (1, "int64"),
        "offset_ps": (2, "int64"),
        "duration_ps": (3, "int64"),
        "stats": (4, "XStat*"),
    },
    "XStat": {
        "metadata_id": (1, "int64"),
        "uint64_value": (3, "uint64"),
        "int64_value": (4, "int64"),
        "str_value": (5, "bytes"),
        "ref_value": (7, "uint64"),
    },
    "EventEntry": {"key": (1, "int64"), "value": (2, "EventMetadata")},
    "EventMetadata": {"name": (2, "bytes"), "display_name": (4, "bytes"), "stats": (5, "XStat*")},
    "StatEntry": {"key": (1, "int64"), "value": (2, "StatMetadata")},
    "StatMetadata": {"name": (2, "bytes")},
}
"""Fields by their number and type; * stands for a list. Texts are bytes, as none is trusted."""


@cache
def _types() -> dict[str, Any]:
    """Return the class of each message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    declared = descriptor_pb2.FileDescriptorProto(
        name="tpu_fleet/xplane.proto", package="tpu_fleet.xplane", syntax="proto2"
    )
    for name, fields in _MESSAGES.items():
        message = declared.message_type.add(name=name)
        for one, (number, kind) in fields.items():
            _declare(message.field.add(name=one, number=number), kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(declared)
    classes = message_factory.GetMessageClassesForFiles([declared.name], pool)
    return {name.rpartition(".")[2]: found for name, found in classes.items()}


def _declare(made: Any, kind: str) -> None:
    base = kind.removesuffix("*")
    made.label = made.LABEL_REPEATED if kind.endswith("*") else made.LABEL_OPTIONAL
    if base in _MESSAGES:
        made.type, made.type_name = made.TYPE_MESSAGE, f".tpu_fleet.xplane.{base}"
    else:
        made.type = getattr(made, f"TYPE_{base.upper()}")
