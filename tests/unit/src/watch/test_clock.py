"""A wrong clock has no effect: leases, pauses and limits go by one that cannot be set."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from slices_seen import slice_seen

from tpu_fleet.notify.message import Message
from tpu_fleet.notify.send import NotSentError
from tpu_fleet.watch import clock, loop, report
from tpu_fleet.watch.clock import SteadyClock
from tpu_fleet.watch.ground import Ground, Settings
from tpu_fleet.watch.lease import ProjectLease, read
from tpu_fleet.watch.memory import SliceMemory
from tpu_fleet.watch.options import Options

HOUR = 3600.0
LEASE = 900.0
BEGIN = 1_794_000_000.0
SAID: dict[str, Any] = {
    "project": "p",
    "api_endpoint": "",
    "fleet": {"owner": "managed", "slices": []},
    "state_dir": "/state",
    "notify": [{"name": "people", "command": "true", "per_hour": 3}],
    "runs": [],
}


@dataclass
class Computer:
    """One on which a watcher may run: its boot, and by how much its clock is wrong."""

    name: str
    folder: Path
    booted: float = BEGIN - 1e6
    wrong: float = 0.0
    boot: int = 1


class Earth:
    """The real time, and what the computers on it take for the time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = BEGIN
        self.at: Computer | None = None
        self.metadata: dict[str, str] = {}
        real, steady = time.time, time.clock_gettime

        def of_day() -> float:
            return real() if self.at is None else self.now + self.at.wrong

        def since_boot(which: int) -> float:
            return steady(which) if self.at is None else self.now - self.at.booted

        patch.setattr(time, "time", of_day)
        patch.setattr(time, "clock_gettime", since_boot)
        patch.setattr(clock, "boot_id", lambda: f"{self.at and (self.at.name, self.at.boot)}")

    @contextmanager
    def on(self, computer: Computer) -> Iterator[None]:
        self.at = computer
        try:
            yield
        finally:
            self.at = None

    def change_metadata(self, alter: Callable[[dict[str, str]], dict[str, str] | None]) -> None:
        self.metadata = alter(dict(self.metadata)) or self.metadata


class Watcher(loop.Watcher):
    """A watcher that has nothing to look at; what it would do is noted."""

    def __init__(self, earth: Earth, computer: Computer) -> None:
        computer.folder.mkdir(exist_ok=True)
        super().__init__(Ground((), computer.folder), Options(lease=LEASE))
        self.state.settings = Settings.from_dict(SAID)
        self.lead.lease = ProjectLease(
            cast(Any, earth), lambda: earth.now, "managed", computer.name, LEASE
        )
        self.acted = 0

    def read_settings(self) -> None:
        pass

    def look_at_slices(self) -> None:
        pass

    def begin_jobs(self, now: float) -> None:
        self.acted += self.lead.lease is not None and self.lead.lease.holds(now)


@pytest.fixture
def earth(monkeypatch: pytest.MonkeyPatch) -> Earth:
    # Nobody pulls the plug here, and a busy disk takes its time.
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    return Earth(monkeypatch)


def computers(folder: Path, *names: str) -> list[Computer]:
    return [Computer(name, folder / name) for name in names]


def an_hour_after_a_clock_was_set_back(earth: Earth, tmp_path: Path) -> None:
    """Two watchers, of which the first one leads when its clock is set back."""
    one, two = computers(tmp_path, "one", "two")
    watchers: dict[str, Watcher] = {}
    for computer in (one, two):
        with earth.on(computer):
            watchers[computer.name] = Watcher(earth, computer)
            watchers[computer.name].tick()
    one.wrong = -HOUR
    for _minute in range(60):
        earth.now += 60
        for computer in (one, two):
            watcher = watchers[computer.name]
            with earth.on(computer):
                watcher.acted = 0
                watcher.tick()
            held = read(earth.metadata["tpu-fleet-watch"])
            assert held is not None
            if watcher.acted:
                assert (held.holder, held.until > earth.now) == (computer.name, True)
    assert watchers["one"].acted
    assert not watchers["two"].acted


def test_one_watcher_leads_though_its_clock_is_set_back(earth: Earth, tmp_path: Path) -> None:
    an_hour_after_a_clock_was_set_back(earth, tmp_path)


def test_a_watcher_that_believes_the_clock_is_found(
    earth: Earth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SteadyClock, "now", lambda _self: time.time())
    with pytest.raises(AssertionError, match=r"\('one', False\) == \('one', True\)"):
        an_hour_after_a_clock_was_set_back(earth, tmp_path)


@pytest.mark.parametrize("number", range(10))
def test_whatever_happens_to_clocks_one_watcher_acts_and_the_limit_holds(
    number: int, earth: Earth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks jump by hours, computers sleep and boot, watchers begin again; in steps of minutes."""
    print(f"note: seed {number}")
    chance = random.Random(number)  # noqa: S311 - repeatable, not secret
    sent: dict[str, list[float]] = {"one": [], "two": []}

    def send(_message: Message, _entry: Mapping[str, Any]) -> None:
        if earth.at is not None:
            sent[earth.at.name].append(earth.now)

    monkeypatch.setattr(report, "send", send)
    both, watchers, acted = computers(tmp_path, "one", "two"), {}, 0
    for computer in both:
        with earth.on(computer):
            watchers[computer.name] = Watcher(earth, computer)
    for step in range(120):
        earth.now += chance.choice([30, 60, 300, 300, 300, 2000])
        for computer in both:
            what = chance.choice(["nothing"] * 9 + ["jump", "begin anew", "boot", "asleep"])
            with earth.on(computer):
                if what == "jump":
                    computer.wrong = chance.uniform(-30 * HOUR, 30 * HOUR)
                elif what == "boot":
                    computer.boot, computer.booted = computer.boot + 1, earth.now - 20
                if what in ("begin anew", "boot"):
                    watchers[computer.name] = Watcher(earth, computer)
                if what == "asleep":
                    continue
                watcher = watchers[computer.name]
                watcher.state.next_look = watcher.acted = 0
                told = Message("failed", f"{step}", "", watcher.state.clock.now(), key=f"{step}")
                watcher.report.tell([told])
                watcher.tick()
            if watcher.acted:
                acted += 1
                held = read(earth.metadata["tpu-fleet-watch"])
                assert held is not None
                assert (held.holder, held.until > earth.now) == (computer.name, True)
    assert acted > 20
    for times in sent.values():
        assert len(times) > 10
        assert all(later - first >= HOUR for first, later in zip(times, times[3:], strict=False))


def test_what_cannot_be_sent_is_kept_though_the_clock_is_a_month_ahead(
    earth: Earth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    went: list[Message] = []
    broken = True

    def send(message: Message, _entry: Mapping[str, Any]) -> None:
        if broken:
            raise NotSentError("the line is dead")
        went.append(message)

    monkeypatch.setattr(report, "send", send)
    [one] = computers(tmp_path, "one")
    with earth.on(one):
        watcher = Watcher(earth, one)
        watcher.report.tell([Message("failed", "a run failed", "", time.time())])
        watcher.report.deliver(watcher.save)
        one.wrong = 30 * 24 * HOUR
        watcher.report.deliver(watcher.save)
        one.wrong = -HOUR
        broken = False
        watcher.report.deliver(watcher.save)
        assert went == []  # the pause of a minute is not over
        earth.now += 61
        watcher.report.deliver(watcher.save)
    assert [message.title for message in went] == ["a run failed"]
    # People read the time of the computer, wrong as it is.
    assert went[0].at == pytest.approx(BEGIN - HOUR)


def test_the_clock_goes_on_over_restarts_and_stands_still_while_the_computer_is_off(
    earth: Earth, tmp_path: Path
) -> None:
    [one] = computers(tmp_path, "one")
    with earth.on(one):
        first = SteadyClock({})
        assert first.now() == BEGIN
        earth.now, one.wrong = BEGIN + 100, -50 * HOUR
        again = SteadyClock(json.loads(json.dumps(first.kept())))
        assert (again.now(), again.other_boot) == (BEGIN + 100, False)
        assert again.time_of_day(BEGIN) == BEGIN - 50 * HOUR
        kept = again.kept()
        one.boot, one.booted = 2, BEGIN + 9 * HOUR
        earth.now = BEGIN + 9 * HOUR + 30
        other = SteadyClock(kept)
        assert (other.now(), other.other_boot) == (BEGIN + 100, True)
        earth.now += 5
        assert other.now() == BEGIN + 105


def test_nobody_is_taken_for_idle_while_the_computer_was_off(earth: Earth, tmp_path: Path) -> None:
    [one] = computers(tmp_path, "one")
    with earth.on(one):
        watcher = Watcher(earth, one)
        known = SliceMemory(uid="u", phase="ready", asked_at=BEGIN, idle_since=BEGIN - 3000)
        watcher.state.seen = [slice_seen("pair", "ready", "")]
        watcher.state.memory = watcher.state.memory.with_slice("pair", known)
        watcher.save()
        assert Watcher(earth, one).state.memory.slice("pair").asked_at == BEGIN
        one.boot += 1
        assert Watcher(earth, one).state.memory.slice("pair").asked_at == 0.0
