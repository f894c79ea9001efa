"""What is done next about a worker whose log is followed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import Piece, RunStatus
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from tpu_fleet.workers.logs.plan import Step, Watched, Worker, endings, next_step, pause_after

DONE, AGAIN, GIVE_UP = Step("done"), Step("again"), Step("give up")
ENDED = {"met": True, "end": "succeeded"}
NONE: dict[str, Any] = {"none": ["other"]}
MET = {"met": True}


@pytest.mark.parametrize(
    ("kind", "worker", "follow", "expected"),
    [
        # It came to its end.
        (Kind.DONE, {"met": True, "end": ""}, False, DONE),
        (Kind.DONE, ENDED, True, DONE),
        # It has no such run; or not yet, since its slice was made anew.
        (Kind.DONE, NONE, False, DONE),
        (Kind.DONE, NONE, True, DONE),
        (Kind.DONE, {**NONE, "met": True}, True, Step("again", 10.0)),
        (Kind.DONE, {**NONE, "expected": True, "failures": 2}, True, Step("again", 2.0)),
        (Kind.DONE, {**NONE, "expected": True}, False, DONE),
        # The reader was killed, as in a reboot; or never began.
        (Kind.DONE, MET, True, Step("again", 0.5)),
        (Kind.DONE, MET, False, AGAIN),
        (Kind.DONE, {}, True, GIVE_UP),
        # It may not read the log: trying again does not help.
        (Kind.DONE, {"met": True, "error": ("no", "--sudo")}, True, GIVE_UP),
        # The line was lost.
        (Kind.CUT, MET, True, Step("again", 0.5)),
        (Kind.CUT, {**MET, "failures": 3}, True, Step("again", 2.0)),
        (Kind.CUT, {**MET, "failures": 30}, True, Step("again", 10.0)),
        (Kind.CUT, MET, False, AGAIN),
        (Kind.CUT, {**MET, "failures": 2}, False, GIVE_UP),
        # It is not where it was.
        (Kind.UNREACHABLE, MET, True, Step("again", 0.5)),
        (Kind.UNREACHABLE, {**MET, "failures": 2}, True, Step("again", 1.0, look=True)),
        (Kind.HOST_KEY, {**MET, "failures": 2}, True, Step("again", 1.0, look=True)),
        (Kind.UNAVAILABLE, {"failures": 7}, True, Step("again", 10.0, look=True)),
        (Kind.REFUSED, {}, True, Step("again", 0.5, look=True)),
        (Kind.REFUSED, {}, False, Step("again", look=True)),
        (Kind.REFUSED, {"failures": 2}, False, GIVE_UP),
        # Keys come back some time after the machine; who was never let in is not let in later.
        (Kind.AUTH, MET, True, Step("again", 0.5)),
        (Kind.AUTH, {}, True, GIVE_UP),
        # The reason is here, or somebody said for how long.
        (Kind.LOCAL, MET, True, GIVE_UP),
        (Kind.TIMEOUT, MET, True, GIVE_UP),
    ],
)
def test_next_step(kind: Kind, worker: dict[str, Any], follow: bool, expected: Step) -> None:
    known = Worker("w", "pod", **{"failures": 1, **worker})
    status = 0 if known.end is not None or known.none is not None else 1
    result = Result("w", kind, status if kind is Kind.DONE else None)
    assert next_step(known, result, follow) == expected


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([{"finished": True, "met": True}], True),
        ([{"finished": True, "none": []}], True),
        ([{"met": True}], False),
        ([{"finished": True, "met": True}, {"met": True, "failures": 9}], False),
        # Never reached: once is not enough, and then it holds nobody up.
        ([{"finished": True, "met": True}, {"failures": 1}], False),
        ([{"finished": True, "met": True}, {"failures": 2}], True),
        # But its slice has the run; or nobody else has it.
        ([{"finished": True, "met": True}, {"failures": 2, "expected": True}], False),
        ([{"finished": True, "none": []}, {"failures": 9}], False),
    ],
)
def test_when_it_is_over(workers: list[dict[str, Any]], expected: bool) -> None:
    named = {str(at): Worker(str(at), "pod", **told) for at, told in enumerate(workers)}
    assert Watched(named).over() is expected


def test_who_has_no_such_run_is_asked_again_when_its_slice_has_it() -> None:
    first, second = Worker("a-w0", "a"), Worker("a-w1", "a", finished=True, none=["old"])
    other = Worker("b", "b", finished=True, none=["older"])
    watched = Watched({worker.name: worker for worker in (first, second, other)})
    assert watched.others() == ["old", "older"]
    assert watched.expect("a") == [second]
    assert watched.expect("a") == []
    assert (second.finished, other.finished) == (False, True)


def test_what_the_reader_says() -> None:
    worker = Worker("w", "pod", failures=3)
    asked = {"run": "digits", "tail": 5}
    assert worker.order(asked) == {"do": "log", **asked}
    assert worker.heard(Piece(run=RunStatus("digits", state="running"))) == ""
    assert (worker.met, worker.failures) == (True, 0)
    assert worker.heard(Piece(at=("7-1.5", 40, 9), bytes=9)) == ""
    assert worker.heard(Piece(lost="some")) == "some"
    assert worker.order(asked) == {"do": "log", **asked, "at": ("7-1.5", 40, 9)}
    worker.heard(Piece(end="failed"))
    assert endings([worker, Worker("x", "pod", end="")]) == {"failed": ["w"]}


def test_a_reader_that_breaks_off_each_time_is_not_asked_for_ever() -> None:
    worker = Worker("w", "pod")
    steps = []
    for _connection in range(3):
        worker.heard(Piece(run=RunStatus("digits", state="running")), follow=False)
        worker.failures += 1
        steps.append(next_step(worker, Result("w", Kind.DONE), follow=False).what)
    assert steps == ["again", "give up", "give up"]


def test_pauses_grow_and_stay_short_enough_for_a_reboot() -> None:
    assert [pause_after(number) for number in range(1, 8)] == [0.5, 1, 2, 4, 8, 10, 10]


def test_a_log_goes_on_where_the_archive_ended() -> None:
    worker = Worker("solo", "solo", skip=("2-b", 5))

    def new(at: tuple[str, int, int] | None, data: bytes) -> bytes:
        return worker.unseen(Piece(at=at), data)

    assert new(("1-a", 0, 0), b"") == b""
    assert new(("1-a", 9, 0), b"123456789") == b""
    assert new(("2-b", 3, 0), b"abc") == b""
    assert new(("2-b", 8, 0), b"defgh") == b"fgh"
    assert new(("2-b", 10, 0), b"ij") == b"ij"
    worker = Worker("solo", "solo", skip=("1-a", 9))
    assert new(("1-a", 9, 0), b"123456789") == b""
    assert new(("2-b", 2, 0), b"ab") == b"ab"
