"""The dialogue with workers, of which some are hostile, late or gone."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError

from tpu_fleet.workers.profile import bring
from tpu_fleet.workers.profile.bring import MOST_BYTES, Answer, Bringer, Moment

BEGINNING = b"tpu-fleet-run-reader\n"
READY = {"ready": [{"pid": 7, "command": "python train.py"}], "now": 5000.0}
END = {"end": True}


def about(**more: Any) -> dict[str, Any]:
    told = {"pid": 7, "size": 4, "framework": "jax 0.12.0.1", "begun": 5002.5, "ended": 5007.5}
    return {**told, "first_step": 812, "last_step": 840, **more}


class Worker:
    """The other end of a channel."""

    def __init__(self, *pieces: dict[str, Any] | bytes, name: str = "pair-w0") -> None:
        self.target = SimpleNamespace(name=name)
        self._reader = asyncio.StreamReader(limit=1 << 18)
        self._reader.feed_data(b"Welcome\n" + BEGINNING)
        for piece in pieces:
            line = piece if isinstance(piece, bytes) else json.dumps(piece).encode() + b"\n"
            self._reader.feed_data(line)
        self._reader.feed_eof()
        self.readline, self.readexactly = self._reader.readline, self._reader.readexactly
        self.heard: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.heard.append(data)


def answer_to(folder: Path, *pieces: dict[str, Any] | bytes) -> Answer:
    async def talk() -> Answer:
        worker = Worker(*pieces)
        answer = await Bringer(Moment(1), folder).talk(worker)  # type: ignore[arg-type]
        # Two seconds ahead, by the clock of the worker.
        begin = float(worker.heard[0]) if worker.heard else 5002.0
        assert 5001.9 < begin < 5004.0
        return answer

    return asyncio.run(talk())


def test_a_profile_comes_in_pieces(tmp_path: Path) -> None:
    pieces = ({"bytes": 3}, b"abc", {}, {"bytes": 1}, b"d")
    (profile,) = answer_to(tmp_path, READY, {}, about(), *pieces, END).profiles
    assert profile.path == tmp_path / "pair-w0.xplane.pb"
    assert profile.path.read_bytes() == b"abcd"
    assert (profile.pid, profile.bytes, profile.seconds) == (7, 4, 5.0)
    assert (profile.first_step, profile.last_step) == (812, 840)
    assert profile.late == pytest.approx(0.5, abs=0.3)


def test_several_processes_of_a_worker_have_a_file_each(tmp_path: Path) -> None:
    data = ({"bytes": 4}, b"abcd")
    answer = answer_to(tmp_path, READY, about(), *data, about(pid=8), *data, END)
    assert [one.path.name for one in answer.profiles] == [
        "pair-w0.xplane.pb",
        "pair-w0-8.xplane.pb",
    ]


def test_why_there_is_none(tmp_path: Path) -> None:
    says = "none of its processes has imported JAX"
    assert answer_to(tmp_path, {"refused": says}, END).missing == (says,)
    assert answer_to(tmp_path, READY, {"pid": 7, "says": "it ended\x1b[2J"}, END).missing == (
        "process 7: it ended",
    )
    assert answer_to(tmp_path, READY, {"refused": "disk full"}, END).missing == ("disk full",)
    assert list(tmp_path.iterdir()) == []


def test_steps_and_times_may_be_unknown(tmp_path: Path) -> None:
    unknown = dict.fromkeys(("framework", "begun", "ended", "first_step", "last_step"))
    (profile,) = answer_to(tmp_path, READY, about(**unknown), {"bytes": 4}, b"abcd", END).profiles
    assert (profile.late, profile.seconds, profile.first_step) == (None, None, None)


@pytest.mark.parametrize(
    "pieces",
    [
        (about(size=MOST_BYTES + 1),),
        (about(size=0),),
        (about(size=-1),),
        (about(), {"bytes": 5}, b"abcde"),
        (about(), {"bytes": 0}),
        (about(pid=0),),
        (about(pid="7"),),
        (about(framework="\x1b[2J"), {"bytes": 4}, b"abcd"),
        (about(framework=["jax"]), {"bytes": 4}, b"abcd"),
        (about(begun="now"), {"bytes": 4}, b"abcd"),
        (about(last_step=-1), {"bytes": 4}, b"abcd"),
        ({"pid": 7, "says": 5},),
        ({"refused": {}},),
        (b"[" * 5000 + b"\n",),
        (b"\xff\n",),
        (b'"' + b"x" * (1 << 19) + b'"\n',),
    ],
)
def test_a_hostile_worker_is_refused(
    tmp_path: Path, pieces: tuple[dict[str, Any] | bytes, ...]
) -> None:
    with pytest.raises(AnswerError, match="pair-w0"):
        answer_to(tmp_path, READY, *pieces, END)


@pytest.mark.parametrize("ready", [{"ready": 5, "now": 1.0}, {"ready": [{}] * 65, "now": 1.0}])
def test_a_hostile_readiness_is_refused(tmp_path: Path, ready: dict[str, Any]) -> None:
    with pytest.raises(AnswerError, match="ready"):
        answer_to(tmp_path, ready, END)


def test_many_profiles_of_a_worker_are_not_more_than_one_may_be(tmp_path: Path) -> None:
    half = about(size=4)
    rest = about(pid=8, size=MOST_BYTES - 3)
    with pytest.raises(AnswerError, match="size"):
        answer_to(tmp_path, READY, half, {"bytes": 4}, b"abcd", rest, END)


@pytest.mark.parametrize("pieces", [(), (READY,), (READY, about()), (READY, about(), b'{"by')])
def test_a_worker_that_ends_in_the_middle(tmp_path: Path, pieces: Any) -> None:
    with pytest.raises(ConnectionResetError):
        answer_to(tmp_path, *pieces)


def test_a_worker_that_is_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring, "SILENCE", 0.05)

    async def talk() -> None:
        worker = Worker(READY)
        worker.readline = _never  # type: ignore[method-assign]
        await Bringer(Moment(1), tmp_path).talk(worker)  # type: ignore[arg-type]

    async def _never() -> bytes:
        await asyncio.sleep(60)
        return b""

    with pytest.raises(TimeoutError):
        asyncio.run(talk())


def test_all_get_the_same_moment_by_their_own_clocks() -> None:
    async def agreed() -> list[float]:
        moment = Moment(3, lead=2.0)
        ahead = (0.0, 3600.0, -50.0)
        now = time.time()
        told = await asyncio.gather(*(moment.by_clock_of(now + one) for one in ahead))
        return [begin - one - now for begin, one in zip(told, ahead, strict=True)]

    assert asyncio.run(agreed()) == pytest.approx([2.0] * 3, abs=0.5)


def test_a_worker_that_has_nothing_to_record_is_not_waited_for() -> None:
    async def agreed() -> float:
        moment, begun = Moment(2, lead=0.0, patience=60.0), time.monotonic()
        waits = asyncio.ensure_future(moment.by_clock_of(0.0))
        await asyncio.sleep(0)
        moment.without_one()
        await waits
        return time.monotonic() - begun

    assert asyncio.run(agreed()) < 30


def test_a_worker_that_is_not_reached_is_waited_for_a_while() -> None:
    async def agreed() -> float:
        moment = Moment(2, lead=0.0, patience=0.05)
        return await moment.by_clock_of(time.time()) - time.time()

    assert asyncio.run(agreed()) == pytest.approx(0.0, abs=5.0)
