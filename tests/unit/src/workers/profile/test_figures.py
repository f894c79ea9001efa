"""Where the time of a profile went."""

from __future__ import annotations

import pytest

from tpu_fleet.workers.profile.figures import (
    COLLECTIVE,
    INPUT,
    Shares,
    Sums,
    Total,
    gaps,
    kind_of,
    merged,
    overlap,
    own_times,
    shares,
    total,
)
from tpu_fleet.workers.profile.trace import Device, Operation, Trace

SECOND = 10**12


def operation(name: str, begin: float, end: float, kind: str = "") -> Operation:
    return Operation(name, round(begin * SECOND), round(end * SECOND), kind)


def trace(
    *devices: list[list[Operation]],
    waits: tuple[tuple[float, float], ...] = (),
    loop: tuple[Operation, ...] = (),
) -> Trace:
    made = [Device(f"TPU:{number}", lines) for number, lines in enumerate(devices)]
    spans = [(round(begin * SECOND), round(end * SECOND)) for begin, end in waits]
    return Trace(0, 10 * SECOND, made, spans, list(loop))


def test_a_device_is_idle_where_no_operation_runs() -> None:
    # Two threads compute at the same time for a second.
    found = shares(trace([[operation("dot", 0, 4)], [operation("dot", 3, 5)]]))
    assert found == Shares(1, 0.5, 0.0, 0.0)


def test_waiting_for_input_is_a_part_of_idle() -> None:
    busy = [[operation("dot", 0, 4)]]
    # The next batch is fetched while the device still computes: only the rest holds it up.
    assert shares(trace(busy, waits=((3, 6), (5, 7)))) == Shares(1, 0.6, 0.3, 0.0)


def test_infeed_is_input_also_while_it_runs() -> None:
    busy = [[operation("infeed.1", 0, 2), operation("dot", 2, 10)]]
    assert shares(trace(busy)) == Shares(1, 0.0, 0.2, 0.0)


def test_the_shares_are_the_mean_of_the_devices() -> None:
    one, other = [[operation("all-reduce.7", 0, 4)]], [[operation("dot", 0, 10)]]
    assert shares(trace(one, other)) == Shares(2, 0.3, 0.0, 0.2)


def test_what_lies_outside_of_the_profile_does_not_count() -> None:
    assert shares(trace([[operation("dot", -5, 1), operation("dot", 9, 20)]])) == Shares(
        1, 0.8, 0.0, 0.0
    )


def test_a_profile_without_devices_has_no_shares() -> None:
    assert shares(trace()) is None
    assert shares(Trace(5, 5, [Device("TPU:0", [[]])])) is None


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("all-reduce-start.3", "", COLLECTIVE),
        ("fusion.8", "all-gather fusion", COLLECTIVE),
        ("reduce-scatter", "", COLLECTIVE),
        ("collective-permute-done.1", "", COLLECTIVE),
        ("ragged-all-to-all", "", COLLECTIVE),
        ("send.2", "", COLLECTIVE),
        ("infeed.1", "", INPUT),
        ("descending_sort", "", ""),
        ("fusion.8", "loop fusion", "loop fusion"),
    ],
)
def test_the_kind_of_an_operation(name: str, kind: str, expected: str) -> None:
    assert kind_of(name, kind) == expected


def test_an_operation_has_its_time_without_those_that_it_calls() -> None:
    line = [
        operation("while", 0, 10),
        operation("body", 1, 4),
        operation("dot", 2, 3),
        operation("body", 5, 6),
        operation("after", 10, 12),
    ]
    own = {(one.name, one.begin): time / SECOND for one, time in own_times(reversed(line))}
    assert [own[one.name, one.begin] for one in line] == [6.0, 2.0, 1.0, 1.0, 2.0]


def test_what_ends_after_the_one_around_it_takes_no_negative_time() -> None:
    line = [operation("a", 0, 2), operation("b", 1, 5)]
    assert {one.name: time / SECOND for one, time in own_times(line)} == {"a": 1.0, "b": 4.0}


def summed(*traces: Trace) -> Sums:
    sums = Sums()
    for one in traces:
        sums.add(one)
    return sums


def test_the_operations_that_took_most_time_of_all_workers() -> None:
    one = trace([[operation("dot", 0, 3), operation("all-reduce", 3, 4)]])
    other = trace([[operation("dot", 0, 3), operation("copy", 3, 6)]])
    assert summed(one, other).operations(2) == [
        Total("dot", "", 6.0, 2, 0.6),
        Total("copy", "", 3.0, 1, 0.3),
    ]
    assert summed().operations(5) == []


def test_what_the_loop_does_while_nothing_computes() -> None:
    busy = [[operation("dot", 2, 4), operation("dot", 6, 8)]]
    loop = (
        operation("$train.py:19 batches", 4, 6),
        operation("PjitFunction(step)", 1, 3),
        operation("$train.py:19 batches", 7, 9),
        operation("$checkpoint.py:7 save", 9.5, 30),
    )
    one = trace(busy, loop=loop)
    assert summed(one, one).while_idle(2) == [
        Total("train.py:19 batches", "", 6.0, 4, 0.5),
        Total("PjitFunction(step)", "", 2.0, 2, 1 / 6),
    ]
    assert summed(trace(busy)).while_idle(2) == summed().while_idle(2) == []


def test_spans() -> None:
    some = merged([(5, 6), (0, 2), (1, 3), (3, 4)])
    assert some == [(0, 4), (5, 6)]
    assert gaps(some, 0, 10) == [(4, 5), (6, 10)]
    assert gaps([], 0, 10) == [(0, 10)]
    assert overlap(some, [(1, 2), (3, 9)]) == [(1, 2), (3, 4), (5, 6)]
    assert total(some) == 5
