"""Where the time of a profile went: the figures of a summary. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from .trace import Device, Operation, Trace

_COLLECTIVE = re.compile(
    r"all-reduce|all-gather|all-to-all|reduce-scatter|collective|\b(?:send|recv)\b"
)
_INPUT = re.compile(r"infeed")
COLLECTIVE, INPUT = "collective", "input"
PER_SECOND = 10**12
Span = tuple[int, int]


@dataclass(frozen=True)
class Shares:
    """How the devices of a process spent a profile; each share is from 0 to 1, of their mean."""

    devices: int
    idle: float
    """No operation ran."""
    input: float
    """No operation ran while the training loop waited for its next batch; or one fetched it."""
    collectives: float
    """An operation ran that exchanges data with other devices, or waits for them."""


@dataclass(frozen=True)
class Total:
    """What all calls of an operation took, without the operations that it called."""

    name: str
    kind: str
    """COLLECTIVE, INPUT, or XLA's category; empty where the profile has none."""
    seconds: float
    calls: int
    share: float
    """Of the time of all operations, from 0 to 1."""


def shares(trace: Trace) -> Shares | None:
    """Return the shares of a profile; None if it has no operation of a device."""
    length = trace.end - trace.begin
    if not trace.devices or length <= 0:
        return None
    waits = merged(clipped(trace.waits, trace))
    parts = [_of_device(device, trace, waits) for device in trace.devices]
    means = [sum(part) / len(parts) / length for part in zip(*parts, strict=True)]
    return Shares(len(parts), *means)


def _of_device(device: Device, trace: Trace, waits: Sequence[Span]) -> tuple[int, int, int]:
    """Return how long a device was idle, waited for input, and exchanged."""
    of_kind: dict[str, list[Span]] = {INPUT: [], COLLECTIVE: []}
    for line in device.lines:
        for one in line:
            if (kind := kind_of(one.name, one.kind)) in of_kind:
                of_kind[kind].append((one.begin, one.end))
    fetching, exchanging = (total(merged(clipped(spans, trace))) for spans in of_kind.values())
    idle = _idle(device, trace)
    return total(idle), total(overlap(idle, waits)) + fetching, exchanging


def _idle(device: Device, trace: Trace) -> list[Span]:
    """Return when no operation of a device ran."""
    spans = ((one.begin, one.end) for line in device.lines for one in line)
    return gaps(merged(clipped(spans, trace)), trace.begin, trace.end)


@cache
def kind_of(name: str, kind: str) -> str:
    """Return what an operation with this name and XLA's category is for."""
    both = f"{kind} {name}"
    if _COLLECTIVE.search(both):
        return COLLECTIVE
    return INPUT if _INPUT.search(both) else kind


class Sums:
    """What the operations and the training loops of several profiles took.

    A profile can take a gigabyte of memory, so none is kept.
    """

    def __init__(self) -> None:
        self._operations: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._calls: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._idle = 0

    def add(self, trace: Trace) -> None:
        """Add a profile."""
        for device in trace.devices:
            for line in device.lines:
                for one, alone in own_times(line):
                    _count(self._operations[one.name, one.kind], alone)
        calls = sorted(trace.loop, key=lambda one: one.begin)
        for device in trace.devices:
            idle = _idle(device, trace)
            self._idle += total(idle)
            for call, time in _within(calls, idle):
                _count(self._calls[call.name, ""], time)

    def operations(self, most: int) -> list[Total]:
        """Return the operations that took most time, on all devices together."""
        whole = sum(time for time, _calls in self._operations.values())
        return _first(self._operations, whole, most)

    def while_idle(self, most: int) -> list[Total]:
        """Return what the training loops did most while no operation ran.

        The shares are of that time.
        """
        return _first(self._calls, self._idle, most)


def _count(both: list[int], time: int) -> None:
    both[0] += time
    both[1] += 1


def _first(taken: Mapping[tuple[str, str], Sequence[int]], whole: int, most: int) -> list[Total]:
    first = sorted(taken.items(), key=lambda one: (-one[1][0], one[0]))[:most]
    return [
        Total(name.lstrip("$"), kind_of(name, kind), time / PER_SECOND, calls, time / (whole or 1))
        for (name, kind), (time, calls) in first
    ]


def _within(calls: Iterable[Operation], spans: Sequence[Span]) -> Iterator[tuple[Operation, int]]:
    """Yield each call, in order of their begins, with how long it ran within merged spans."""
    first = 0
    for call in calls:
        while first < len(spans) and spans[first][1] <= call.begin:
            first += 1
        time, at = 0, first
        while at < len(spans) and spans[at][0] < call.end:
            time += min(spans[at][1], call.end) - max(spans[at][0], call.begin)
            at += 1
        if time:
            yield call, time


def own_times(line: Iterable[Operation]) -> Iterator[tuple[Operation, int]]:
    """Yield each operation with its time without those that are nested in it."""
    around: list[list[Any]] = []  # of each that is not over: its end, itself, its own time
    for one in sorted(line, key=lambda one: (one.begin, -one.end)):
        while around and around[-1][0] <= one.begin:
            yield _over(around)
        if around:
            # What ends after the one around it is nested as far as that goes.
            around[-1][2] -= min(one.end, around[-1][0]) - one.begin
        around.append([one.end, one, one.end - one.begin])
    while around:
        yield _over(around)


def _over(around: list[list[Any]]) -> tuple[Operation, int]:
    _end, one, alone = around.pop()
    return one, max(0, alone)


def clipped(spans: Iterable[Span], trace: Trace) -> Iterator[Span]:
    """Yield what lies within a profile."""
    for begin, end in spans:
        if begin < trace.end and end > trace.begin:
            yield max(begin, trace.begin), min(end, trace.end)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the times that at least one of the spans has, in order."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def gaps(spans: Sequence[Span], begin: int, end: int) -> list[Span]:
    """Return the times between two moments that none of the merged spans has."""
    edges = [begin, *(edge for span in spans for edge in span), end]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(first, last) for first, last in pairs if first < last]


def overlap(some: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """Return the times that both have, of merged spans."""
    found, at, other = [], 0, 0
    while at < len(some) and other < len(others):
        begin, end = max(some[at][0], others[other][0]), min(some[at][1], others[other][1])
        if begin < end:
            found.append((begin, end))
        if some[at][1] < others[other][1]:
            at += 1
        else:
            other += 1
    return found


def total(spans: Iterable[Span]) -> int:
    """Return the length of merged spans."""
    return sum(end - begin for begin, end in spans)
