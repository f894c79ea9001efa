"""All workers have a version before any switches; one that will not have it keeps all from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result, Settings
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

from tpu_fleet.workers.sync import talk
from tpu_fleet.workers.sync.talk import Progress, Sync

CONTENTS = ["a" * 64, "b" * 64]
ENTRIES = [[f"{one[0]}.py", "file", False, one, 1] for one in CONTENTS]
RUN = {"run": "digits", "state": "running", "attempt": 2, "next": True, "reason": ""}


class Worker:
    """A worker that says its lines one after the other, and keeps what it is sent."""

    def __init__(self, name: str, *lines: Mapping[str, Any]) -> None:
        self.target = Target(name, "192.0.2.1", user="root")
        self.lines = [json.dumps(line).encode() + b"\n" for line in lines]
        self.got: list[bytes] = []

    async def readline(self) -> bytes:
        await asyncio.sleep(0)
        return self.lines.pop(0) if self.lines else b""

    async def write(self, data: bytes) -> None:
        self.got.append(data)

    @property
    def went(self) -> bool:
        return any(b'"go": true' in data for data in self.got)


def ready(same: bool = False) -> tuple[Mapping[str, Any], ...]:
    after = [] if same else [{"say": "switched"}, {"say": "running", "runs": [RUN]}]
    return ({"say": "ready", "same": same}, *after, {"say": "done", "runs": [RUN]})


def play(
    monkeypatch: pytest.MonkeyPatch, *workers: Worker, check: bool = False
) -> tuple[Sync, list[Result], list[str]]:
    """Let a Sync talk to these workers; return it, the results, and the names with news."""
    heard: list[str] = []

    async def fan_out(_targets: Sequence[Target], _command: Any, **how: Any) -> Any:
        async def one(worker: Worker) -> Result:
            try:
                value = await how["talk"](worker)
                return Result(worker.target.name, Kind.DONE, 0, value=value)
            except Exception as error:
                return Result(worker.target.name, Kind.CUT, says=str(error))

        for done in asyncio.as_completed([one(worker) for worker in workers]):
            yield await done

    async def origin() -> Mapping[str, Any]:
        return {"commit": "c0ffee"}

    def note(name: str, _progress: Progress) -> None:
        heard.append(name)

    monkeypatch.setattr(talk, "fan_out", fan_out)
    orders = {worker.target.name: {"entries": ENTRIES} for worker in workers}
    sync = Sync(orders, lambda wanted: "".join(wanted).encode(), origin, note)
    targets = [worker.target for worker in workers]
    results = asyncio.run(sync.run(targets, Settings(), check))
    return sync, results, heard


def test_all_switch_when_all_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [Worker("w0", {"say": "need", "files": "2"}, *ready()), Worker("w1", *ready())]
    sync, results, heard = play(monkeypatch, *workers)
    assert all(worker.went for worker in workers)
    assert all(result.ok for result in results)
    assert sync.refused == ""
    # Only the second content, which it lacks.
    assert workers[0].got[1] == b"data 64\n" + CONTENTS[1].encode()
    assert (sync.progress["w0"].files, sync.progress["w1"].files) == (1, 0)
    assert sorted(heard) == ["w0", "w0", "w1", "w1"]


def test_workers_clear_up_when_the_programs_of_all_have_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []

    class Noted(Worker):
        async def readline(self) -> bytes:
            line = await super().readline()
            said.append(f"{self.target.name} says {json.loads(line)['say']}")
            return line

        async def write(self, data: bytes) -> None:
            said.append(f"{self.target.name} clears up" if data == b"{}\n" else "")

    play(monkeypatch, Noted("w0", *ready()), Noted("w1", {"say": "need", "files": "2"}, *ready()))
    assert said.index("w0 clears up") > said.index("w1 says running")


@pytest.mark.parametrize(
    "other",
    [Worker("w1", *ready(same=True)), Worker("w1", *ready()[:2])],
    ids=["has it already", "is lost after the switch"],
)
def test_they_wait_for_no_worker_whose_program_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, other: Worker
) -> None:
    first = Worker("w0", *ready())
    _sync, results, _heard = play(monkeypatch, first, other)
    assert first.got[-1] == b"{}\n"
    assert results[-1].name == "w0"
    assert results[-1].ok


@pytest.mark.parametrize(
    "other",
    [
        Worker("w1", {"say": "refused", "why": "no room"}),
        Worker("w1"),
        Worker("w1", {"say": "need", "files": "8"}, *ready()),
        Worker("w1", {"say": "sudo: a password is required"}),
        Worker("w1", {"say": "need", "files": "1"}, {"say": "need", "files": "1"}, *ready()),
    ],
    ids=["refuses", "is lost", "asks for too much", "talks nonsense", "asks again"],
)
def test_none_switches_if_one_does_not_get_ready(
    monkeypatch: pytest.MonkeyPatch, other: Worker
) -> None:
    first = Worker("w0", *ready())
    sync, _results, _heard = play(monkeypatch, first, other)
    assert sync.refused == "w1"
    assert not first.went
    assert not other.went


def test_to_check_none_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [Worker("w0", *ready()), Worker("w1", *ready())]
    sync, _results, heard = play(monkeypatch, *workers, check=True)
    assert not any(worker.went for worker in workers)
    assert sync.refused == ""
    assert heard == []


def test_a_worker_without_the_program_gets_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talk, "sync_program", lambda: b"program")
    worker = Worker("w0", {"say": "program"}, *ready())
    play(monkeypatch, worker)
    assert worker.got[1] == b"7\nprogram"
    again = Worker("w0", {"say": "program"}, {"say": "program"}, *ready())
    _sync, results, _heard = play(monkeypatch, again)
    assert "said program again" in results[0].says


@pytest.mark.parametrize("word", ["switched", "running"])
def test_a_worker_that_repeats_itself_is_given_up(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Otherwise it could keep a sync from its end, with a word each minute."""
    *before, done = ready()
    again = next(line for line in before if line["say"] == word)
    endless = Worker("w0", *before, *[again] * 5, done)
    _sync, results, _heard = play(monkeypatch, endless, Worker("w1", *ready()))
    assert {one.name: one.says for one in results}["w0"] == f"w0 said {word} again"
