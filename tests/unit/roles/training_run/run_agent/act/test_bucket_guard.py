"""What ends a program, or holds it, because of the fence in a bucket."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_agent.act import bucket_guard
from run_agent.act.bucket_guard import BucketGuard
from run_agent.act.bucket_requests import CannotLook
from run_agent.act.unguarded import NotNamed
from run_agent.decide.fence import Mark

MINE = Mark(3, "me", slice="pair")
OTHER = Mark(4, "other", slice="pair", where="vm-b")
AWAY = CannotLook("it does not answer")


class Fence:
    """Gives these answers; the last one for ever."""

    def __init__(self, *answers: Mark | CannotLook | None) -> None:
        self.answers = list(answers)
        self.reads = 0
        self.before: Callable[[], None] = lambda: None

    def read_once(self) -> Mark | None:
        self.reads += 1
        self.before()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, CannotLook):
            raise answer
        return answer


def guard_of(fence: Fence, heard: str = "", restore_below: str = "", **more: Any) -> BucketGuard:
    place = {"storage": "", "metadata": "", "bucket": "lab", "name": "f"}
    told = {"object": place, "mark": MINE._asdict(), "sure": 20.0, "heard": heard}
    order = {"fence": {**told, "restore_below": restore_below}, "env": {}, "look_every": 0.05}
    guard = BucketGuard({**order, **more}, lambda text: said.append(text))
    guard._fence = fence  # type: ignore[assignment]
    return guard


said: list[str] = []


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    said.clear()
    for name in ("_PAUSE", "_START_SECONDS"):
        monkeypatch.setattr(bucket_guard, name, 0.02)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "100"]) as process:
        yield process
        process.kill()


def state_of(child: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("found", [None, Mark(2, "me"), Mark(2, "other"), AWAY])
def test_an_attempt_that_the_fence_does_not_name_may_not_begin(found: Any) -> None:
    with pytest.raises(NotNamed, match="the fence gs://lab/f"):
        guard_of(Fence(found)).claim()


def test_an_attempt_that_it_names_begins_and_another_is_shut_out() -> None:
    assert guard_of(Fence(MINE)).claim() == ""
    assert guard_of(Fence(AWAY, MINE)).claim() == ""
    assert guard_of(Fence(OTHER)).claim() == "fenced by attempt 4 of slice pair on vm-b"


@pytest.mark.parametrize(
    ("restore", "place"),
    [("attempt-2", "gs://lab/d/attempt-2"), ("", "gs://lab/d"), (None, "none")],
)
def test_where_to_restore_from(restore: str | None, place: str) -> None:
    env = {"TPU_FLEET_RESTORE_DIR": "none"}
    named = Mark(3, "me", restore=restore)
    assert guard_of(Fence(named), restore_below="gs://lab/d", env=env).claim() == ""
    assert env["TPU_FLEET_RESTORE_DIR"] == place


def test_a_program_that_is_shut_out_is_killed(child: subprocess.Popen[bytes]) -> None:
    guard = guard_of(Fence(MINE, AWAY, MINE, OTHER))
    guard.watch(child.pid)
    assert child.wait(20) == -9
    assert guard.shut_out == "fenced by attempt 4 of slice pair on vm-b"
    # A bucket that does not answer ends nothing.
    assert [text.rpartition("; ")[2] for text in said] == [
        "the program goes on",
        "it is read again",
    ]


def test_it_is_held_until_the_fence_was_read_after_it_stood_still(
    child: subprocess.Popen[bytes],
) -> None:
    fence = Fence(AWAY, AWAY, MINE)
    states: list[str] = []
    fence.before = lambda: states.append(state_of(child))
    guard_of(fence)._look(child.pid, stood_still=True)
    assert states == ["T", "T", "T"]
    assert state_of(child) != "T"


def test_it_is_not_held_for_ever(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_guard, "_HELD_SECONDS", 0.2)
    begun = time.monotonic()
    guard_of(Fence(AWAY))._look(child.pid, stood_still=True)
    assert time.monotonic() - begun < 5
    assert state_of(child) != "T"


def test_an_answer_from_before_it_stood_still_is_none(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = [0.0]
    monkeypatch.setattr(bucket_guard, "now", lambda: time.monotonic() + ahead[0])
    fence = Fence(MINE, OTHER)

    def stand_still() -> None:
        if fence.reads == 1:
            ahead[0] += 300.0

    fence.before = stand_still
    guard = guard_of(fence)
    guard._look(child.pid, stood_still=False)
    assert (fence.reads, bool(guard.shut_out)) == (2, True)


@pytest.mark.parametrize(("answered_after", "begins"), [(9.0, True), (12.0, False)])
def test_an_attempt_that_would_begin_late_does_not(
    answered_after: float, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent would take it for vanished, which is a failure of the program."""
    ahead = [0.0]
    monkeypatch.setattr(bucket_guard, "now", lambda: time.monotonic() + ahead[0])
    fence = Fence(MINE)
    fence.before = lambda: ahead.__setitem__(0, answered_after)
    if begins:
        assert guard_of(fence).claim() == ""
        return
    with pytest.raises(NotNamed, match="was read too late"):
        guard_of(fence).claim()


def test_standing_still_is_counted_from_the_last_question(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(bucket_guard, "now", lambda: clock[0])
    fence = Fence(MINE)
    fence.before = lambda: clock.__setitem__(0, clock[0] + 4.0)
    guard = guard_of(fence)
    assert guard.claim() == ""
    clock[0] += 10.0  # before it began to look
    assert not guard._stood_still(guard._known())
    clock[0] += 2.0  # an heir that waits 20 seconds may begin while the answer is under way
    assert guard._stood_still(guard._known())


def test_a_wait_ends_though_the_clock_of_sleeps_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = [0.0]
    monkeypatch.setattr(bucket_guard, "now", lambda: time.monotonic() + ahead[0])
    guard = guard_of(Fence(MINE), look_every=100.0)
    threading.Timer(0.1, lambda: ahead.__setitem__(0, 300.0)).start()
    begun = time.monotonic()
    guard._wait()
    assert time.monotonic() - begun < 20


def hear_at(heard: Path, at: float) -> None:
    if not heard.exists():
        heard.touch()
    os.utime(heard, (at, at))


def test_a_note_of_another_clock_is_none(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    guard = guard_of(Fence(MINE), heard=str(heard))
    assert guard._heard_at() == 0
    heard.touch()  # as an agent of an earlier version does
    assert guard._heard_at() == 0


def test_worker_0_may_have_asked_long_before_it_answers(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    guard = guard_of(Fence(MINE), heard=str(heard), look_every=10.0)
    guard._asked -= 100.0
    hear_at(heard, bucket_guard.now() - 4.0)
    assert not guard._stood_still(guard._known())
    guard._wait()  # it is read as soon as four seconds have passed without an answer
    hear_at(heard, bucket_guard.now() - 6.0)
    assert guard._stood_still(guard._known())


def test_what_worker_0_answers_right_after_this_machine_stood_still_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both may have stood still, and neither has read the fence since."""
    heard, clock = tmp_path / "heard", [1000.0]
    monkeypatch.setattr(bucket_guard, "now", lambda: clock[0])
    guard = guard_of(Fence(MINE), heard=str(heard), look_every=10.0)
    hear_at(heard, 1000.0)

    def sleep(_seconds: float) -> None:
        assert clock[0] == 1000.0, "it waits on"
        clock[0] += 90.0
        hear_at(heard, clock[0])

    monkeypatch.setattr(bucket_guard.time, "sleep", sleep)
    assert guard._stood_still(guard._wait())


def test_beside_another_worker_it_is_read_only_while_worker_0_is_not_heard(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    fence = Fence(MINE)
    guard = guard_of(fence, heard=str(heard), look_every=10.0)
    guard._asked -= 100.0
    over = threading.Event()

    def hear() -> None:
        while not over.wait(0.02):
            hear_at(heard, bucket_guard.now())

    thread = threading.Thread(target=hear)
    thread.start()
    time.sleep(0.1)
    guard.watch(child.pid)
    time.sleep(1.2)
    assert fence.reads == 0
    over.set()
    thread.join()
    deadline = time.monotonic() + 20
    while not fence.reads and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fence.reads
    fence.answers = [OTHER]
    assert child.wait(20) == -9
