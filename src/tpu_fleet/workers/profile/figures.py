"""Where the time of a profile went: the figures of a summary. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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
    seconds: float
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
    return Shares(len(parts), length / PER_SECOND, *means)


def _of_device(device: Device, trace: Trace, waits: Sequence[Span]) -> tuple[int, int, int]:
    """Return how long a device was idle, waited for input, and exchanged."""
    operations = [one for line in device.lines for one in line]
    idle = _idle(device, trace)
    of_kind = {
        kind: merged(
            clipped(((one.begin, one.end) for one in operations if kind_of(one) == kind), trace)
        )
        for kind in (INPUT, COLLECTIVE)
    }
    waiting = total(overlap(idle, waits)) + total(of_kind[INPUT])
    return total(idle), waiting, total(of_kind[COLLECTIVE])


def _idle(device: Device, trace: Trace) -> list[Span]:
    """Return when no operation of a device ran."""
    spans = ((one.begin, one.end) for line in device.lines for one in line)
    return gaps(merged(clipped(spans, trace)), trace.begin, trace.end)


def kind_of(operation: Operation) -> str:
    """Return what an operation is for."""
    said = f"{operation.kind} {operation.name}"
    if _COLLECTIVE.search(said):
        return COLLECTIVE
    return INPUT if _INPUT.search(said) else operation.kind


def totals(traces: Iterable[Trace], most: int) -> list[Total]:
    """Return the operations that took most time in all of them together."""
    taken: dict[tuple[str, str], list[int]] = {}
    for trace in traces:
        for device in trace.devices:
            for line in device.lines:
                for one, alone in own_times(line):
                    both = taken.setdefault((one.name, kind_of(one)), [0, 0])
                    both[0] += alone
                    both[1] += 1
    whole = sum(time for time, _calls in taken.values()) or 1
    first = sorted(taken.items(), key=lambda one: (-one[1][0], one[0]))[:most]
    return [
        Total(name, kind, time / PER_SECOND, calls, time / whole)
        for (name, kind), (time, calls) in first
    ]


def while_idle(traces: Iterable[Trace], most: int) -> list[Total]:
    """Return what the training loops did while no operation ran; the shares are of that time."""
    taken: dict[str, list[int]] = {}
    whole = 0
    for trace in traces:
        for device in trace.devices:
            idle = _idle(device, trace)
            whole += total(idle)
            for call, time in _within(sorted(trace.loop, key=lambda one: one.begin), idle):
                both = taken.setdefault(call.name, [0, 0])
                both[0] += time
                both[1] += 1
    first = sorted(taken.items(), key=lambda one: (-one[1][0], one[0]))[:most]
    return [
        Total(name.lstrip("$"), "", time / PER_SECOND, calls, time / (whole or 1))
        for name, (time, calls) in first
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
    open_ones: list[list[int]] = []
    found: list[tuple[Operation, list[int]]] = []
    for one in sorted(line, key=lambda one: (one.begin, -one.end)):
        while open_ones and open_ones[-1][0] <= one.begin:
            open_ones.pop()
        length = one.end - one.begin
        if open_ones:
            # What ends after the one around it is nested as far as that goes.
            open_ones[-1][1] -= min(one.end, open_ones[-1][0]) - one.begin
        open_ones.append([one.end, length])
        found.append((one, open_ones[-1]))
    for one, (_end, alone) in found:
        yield one, max(0, alone)


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
