"""The watcher stops runs on the workers of their slices, and names those where that failed."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind, LocalTrouble
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result, Settings
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.watch import halt as module
from tpu_fleet.watch.halt import SECONDS, halt

HOSTS = ("pair-w0", "pair-w1", "solo", "other")
GROUPS = {
    "tpu_slice_pair": ("pair-w0", "pair-w1", "pair-w2"),
    "tpu_slice_solo": ("solo",),
    "tpu_slice_other": ("other",),
}
# Of pair-w2 it is not known how to reach it.
BOOK = Fleet({name: Target(name, "10.0.0.1") for name in HOSTS}, GROUPS)


class Line:
    """Stands for the connections: what was ordered, and what the workers answer."""

    def __init__(self) -> None:
        self.orders: dict[str, dict[str, Any]] = {}
        self.commands: dict[str, str] = {}
        self.answers: Mapping[str, Result] = {}
        self.trouble: LocalTrouble | None = None
        self.settings: Settings | None = None
        self.room = 0

    async def fan_out(
        self, targets: Sequence[Target], command: Callable[[Target], str], *, settings: Settings
    ) -> AsyncIterator[Result]:
        self.settings = settings
        if self.trouble:
            raise self.trouble
        for target in targets:
            self.commands[target.name] = command(target)
            self.orders[target.name] = json.loads(shlex.split(command(target))[-1])
            yield self.answers.get(target.name) or Result(target.name, Kind.DONE, exit_status=0)

    def make_room(self, count: int) -> None:
        self.room = count


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    found = Line()
    monkeypatch.setattr(module, "fan_out", found.fan_out)
    monkeypatch.setattr(module, "make_room", found.make_room)
    return found


def test_each_worker_of_a_slice_stops_the_runs_of_that_slice(line: Line) -> None:
    runs = {"pair": ("lm", "eval"), "solo": ("digits",)}
    assert halt(BOOK, runs, "budget") == {}
    of_pair = {"do": "stop", "runs": ["lm", "eval"], "by": "budget"}
    assert line.orders == {
        "pair-w0": of_pair,
        "pair-w1": of_pair,
        "solo": {"do": "stop", "runs": ["digits"], "by": "budget"},
    }
    assert line.settings is not None
    assert (line.settings.timeout, line.room) == (SECONDS, 3)


def test_root_stops_them_by_the_program_of_tpu_fleet_stop(line: Line) -> None:
    halt(BOOK, {"solo": ("digits",)}, "budget")
    assert line.commands["solo"].startswith("exec sudo -n /usr/bin/python3 -I -c ")
    assert "run_verbs" in line.commands["solo"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Result("solo", Kind.TIMEOUT, says="no answer"), "no answer"),
        (Result("solo", Kind.DONE, exit_status=1), "it failed"),
        (Result("solo", Kind.DONE, exit_status=1, stderr=b"no such run\n"), "no such run"),
        # The program ends well and says which run it could not stop.
        (Result("solo", Kind.DONE, exit_status=0, stderr=b"digits: odd\n"), "digits: odd"),
    ],
)
def test_a_worker_that_fails_is_named_and_the_others_stop(
    line: Line, answer: Result, why: str
) -> None:
    line.answers = {"solo": answer}
    assert halt(BOOK, {"solo": ("digits",), "pair": ("lm",)}, "budget") == {"solo": why}
    assert set(line.orders) == {"solo", "pair-w0", "pair-w1"}


def test_what_a_worker_says_is_shown_as_text_and_not_in_full_length(line: Line) -> None:
    words = b"x" * 5000 + b" end\x1b[31m"
    line.answers = {"solo": Result("solo", Kind.DONE, exit_status=1, stderr=words)}
    said = halt(BOOK, {"solo": ("digits",)}, "budget")["solo"]
    assert "\x1b" not in said
    assert "end" in said
    assert len(said) <= 250


def test_a_trouble_of_this_computer_is_that_of_all_workers(line: Line) -> None:
    line.trouble = LocalTrouble("asyncssh is not installed", "pip install asyncssh")
    failures = halt(BOOK, {"pair": ("lm",)}, "budget")
    assert failures == dict.fromkeys(("pair-w0", "pair-w1"), "asyncssh is not installed")


def test_without_workers_that_can_be_reached_nothing_is_done(line: Line) -> None:
    assert halt(BOOK, {"gone": ("lm",)}, "budget") == {}
    assert halt(Fleet({}, GROUPS), {"pair": ("lm",)}, "budget") == {}
    assert (line.orders, line.settings) == ({}, None)
