"""What a profile says, as a TPU and as CPUs write it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tpu_fleet.workers.profile import trace
from tpu_fleet.workers.profile.trace import Operation, TooLargeError, TraceError, read

MS = 10**9
"""Picoseconds."""


class Plane:
    """A plane that is written down: names get their numbers as they come."""

    def __init__(self, space: Any, name: str) -> None:
        self.plane = space.planes.add(name=name.encode())
        self._numbers: dict[str, int] = {}

    def number(self, table: str, name: str) -> int:
        key = f"{table} {name}"
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            entry = getattr(self.plane, table).add(key=self._numbers[key])
            entry.value.name = name.encode()
        return self._numbers[key]

    def line(self, name: str, at_ns: int = 0) -> Any:
        return self.plane.lines.add(name=name.encode(), timestamp_ns=at_ns)

    def event(self, line: Any, name: str, begin: int, length: int, **stats: int) -> None:
        made = line.events.add(offset_ps=begin, duration_ps=length)
        made.metadata_id = self.number("event_metadata", name)
        for stat, value in stats.items():
            made.stats.add(metadata_id=self.number("stat_metadata", stat), int64_value=value)

    def about(self, name: str, short: str, kind: str) -> None:
        number = self.number("event_metadata", name)
        entry = next(one for one in self.plane.event_metadata if one.key == number)
        entry.value.display_name = short.encode()
        stat = entry.value.stats.add(metadata_id=self.number("stat_metadata", "hlo_category"))
        stat.ref_value = self.number("stat_metadata", kind)


def space() -> Any:
    return trace._types()["XSpace"]()


def written(tmp_path: Path, made: Any) -> Path:
    path = tmp_path / "pair-w0.xplane.pb"
    path.write_bytes(made.SerializeToString())
    return path


def test_the_chips_of_a_tpu(tmp_path: Path) -> None:
    made = space()
    for number in range(2):
        chip = Plane(made, f"/device:TPU:{number}")
        chip.about("%fusion.3 = f32[8]{0} fusion(%p)", "fusion.3", "convolution fusion")
        line = chip.line("XLA Ops", at_ns=1_000_000)
        chip.event(line, "%fusion.3 = f32[8]{0} fusion(%p)", 5 * MS, 2 * MS)
        chip.event(line, "%all-reduce.1 = f32[8]{0} all-reduce(%p)", 7 * MS, MS)
        chip.event(chip.line("Steps"), "12", 0, 9 * MS)
        chip.event(chip.line("XLA Modules"), "jit_step(123)", 0, 9 * MS)
    Plane(made, "/device:CUSTOM:Megascale Trace").line("x")
    about = Plane(made, "Task Environment")
    for name, at in (("profile_start_time", 500_000), ("profile_stop_time", 20_000_000)):
        number = about.number("stat_metadata", name)
        about.plane.stats.add(metadata_id=number, uint64_value=at)

    found = read(written(tmp_path, made))
    assert (found.begin, found.end) == (MS // 2, 20 * MS)
    assert [device.name for device in found.devices] == ["TPU:0", "TPU:1"]
    assert found.devices[0].lines == [
        [
            Operation("fusion.3", 6 * MS, 8 * MS, "convolution fusion"),
            Operation("all-reduce.1", 8 * MS, 9 * MS),
        ]
    ]


def test_the_cpus_of_jax_and_the_waits_of_the_training_loop(tmp_path: Path) -> None:
    made = space()
    host = Plane(made, "/host:CPU")
    computes = host.line("tf_XLAEigen/1")
    host.event(computes, "dot.1", 0, MS, hlo_op=1, device_ordinal=3)
    host.event(computes, "end: dot.1", MS, 1)
    loop = host.line("python")
    host.event(loop, "PjitFunction(step)", 0, MS)
    host.event(loop, "$builtins next", MS, 4 * MS)
    host.event(loop, "$train.py:19 data", MS, 4 * MS)
    host.event(loop, "$queue.py:153 get", 6 * MS, MS)
    # A thread that fetches ahead always waits, and holds up nothing.
    host.event(host.line("python"), "$builtins next", 0, 9 * MS)

    found = read(written(tmp_path, made))
    assert [(device.name, device.lines) for device in found.devices] == [
        ("CPU:3", [[Operation("dot.1", 0, MS)]])
    ]
    assert found.waits == [(MS, 5 * MS), (6 * MS, 7 * MS)]
    assert (found.begin, found.end) == (0, MS)


def test_a_loop_over_a_generator_and_a_step_that_is_a_call_of_its_own(tmp_path: Path) -> None:
    made = space()
    host = Plane(made, "/host:CPU")
    loop = host.line("python")
    # As the profiler writes them: a call may come after what it calls.
    host.event(loop, "PjitFunction(step)", 3 * MS, MS)
    host.event(loop, "$train.py:40 run_step", MS, 5 * MS)
    host.event(loop, "$data.py:19 batches", MS, MS)
    host.event(loop, "$random.py:7 choose", MS, MS // 2)
    host.event(loop, "$train.py:88 steps", 0, 9 * MS)
    host.event(loop, "$time sleep", 7 * MS, MS)
    path = written(tmp_path, made)
    found = read(path, ["data.py:19 batches", "train.py:88 steps"])
    # The generator in which the program starts is the loop itself.
    assert found.waits == [(MS, 2 * MS)]
    assert [one.name for one in found.loop] == [
        "$data.py:19 batches",
        "PjitFunction(step)",
        "$time sleep",
    ]
    assert read(path).waits == []


def test_an_operation_of_which_a_profile_has_no_name(tmp_path: Path) -> None:
    made = space()
    chip = Plane(made, "/device:TPU:0")
    chip.line("XLA Ops").events.add(metadata_id=77, duration_ps=-5)
    assert read(written(tmp_path, made)).devices[0].lines == [[Operation("", 0, 0)]]


@pytest.mark.parametrize("data", [b"\xff" * 40, b"\x0a\x7f", b"\x0b"])
def test_what_is_no_profile_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "pair-w0.xplane.pb"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=r"pair-w0\.xplane\.pb is no profile of XLA"):
        read(path)


@pytest.mark.parametrize(("limit", "most"), [("MOST_BYTES", 20), ("MOST_EVENTS", 1)])
def test_what_would_take_all_memory_is_not_summed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    made = space()
    for _number in range(2):
        made.planes.add().lines.add(name=b"a name").events.add(metadata_id=1, duration_ps=MS)
    monkeypatch.setattr(trace, limit, most)
    with pytest.raises(TooLargeError, match="too large to be summed up here: XProf opens it"):
        read(written(tmp_path, made))


def test_any_bytes_are_a_profile_or_refused(tmp_path: Path) -> None:
    made = space()
    host = Plane(made, "/host:CPU")
    host.event(host.line("python"), "PjitFunction(step)", 0, MS, hlo_op=1, device_ordinal=1)
    whole, path = made.SerializeToString(), tmp_path / "x.xplane.pb"
    rolled = random.Random(33)  # noqa: S311 - which bytes a test spoils
    for _number in range(300):
        data = bytearray(whole)
        data[rolled.randrange(len(data))] = rolled.randrange(256)
        path.write_bytes(bytes(data[: rolled.randrange(len(data) + 1)]))
        try:
            read(path)
        except TraceError:
            continue
