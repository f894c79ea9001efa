"""The closer look at the selected run."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tpu_fleet.history.record import history_here
from tpu_fleet.history.store import Look, Point
from tpu_fleet.top import closer
from tpu_fleet.top.closer import Key, Looker, curves_of, log_of, spark

KEY = ("pair", "digits", 0)


def until(what: Callable[[], bool]) -> None:
    """Wait for a thread."""
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("values", "width", "found"),
    [
        ([], 9, ""),
        ([1.0, 2.0], 0, ""),
        ([3.0, 3.0], 9, "▁▁"),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 8, "▁▂▃▄▅▆▇█"),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 2, "▁█"),
        ([1000.0, 1.0, 40.0], 9, "█▁▅"),
        ([-1e308, 1e308], 9, "▁▁"),
    ],
)
def test_blocks(values: list[float], width: int, found: str) -> None:
    assert spark(values, width) == found


def test_the_curves_are_those_of_the_history(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(tmp_path / "inv"))
    monkeypatch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path / "s"))
    now = time.time()
    history = history_here()
    points = [
        Point("pair", run, name, now - 900 + 90 * n, 180 * n, value)
        for run in ("digits", "other")
        for n in range(5)
        for name, value in (("loss", 5.0 - n), ("step", 180.0 * n), ("lr", 0.1))
    ]
    history.add(Look(now, points=points))
    history.close()
    loss, speed = curves_of(KEY)
    assert (loss[0], loss[-1], len(loss)) == (5.0, 1.0, 5)
    assert speed == pytest.approx((2.0, 2.0, 2.0, 2.0))
    assert curves_of(("pair", "none", 0)) == ((), ())


def command(monkeypatch: pytest.MonkeyPatch, program: str) -> list[Sequence[str]]:
    """Run a program in place of tpu-fleet."""
    asked: list[Sequence[str]] = []
    real = subprocess.Popen

    def popen(words: Sequence[str], **more: Any) -> Any:
        asked.append(words)
        return real([sys.executable, "-c", program], **more)

    monkeypatch.setattr(closer.subprocess, "Popen", popen)
    return asked


def test_the_log_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = command(monkeypatch, "print('step 1'); print(chr(27) + '[31mstep 2')")
    assert log_of(KEY, lambda _child: None) == (["step 1", "step 2"], "")
    told = ["logs", "--tail", "40", "--slice", "pair", "--worker", "0", "--", "digits"]
    assert list(asked[0][1:]) == ["-m", "tpu_fleet", *told]


def test_why_there_is_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, "import sys; sys.exit('pair-w0: unreachable')")
    assert log_of(KEY, lambda _child: None) == ([], "pair-w0: unreachable")


def test_a_log_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, "import time; time.sleep(99)")
    monkeypatch.setattr(closer, "PATIENCE", 0.1)
    assert log_of(KEY, lambda _child: None) == ([], "the log did not come within 0.1 s")


def test_only_a_row_that_stays_selected_is_looked_at() -> None:
    asked: list[Key] = []

    def log(key: Key, _begun: Any) -> tuple[list[str], str]:
        asked.append(key)
        return ["a line"], ""

    looker = Looker(lambda _key: ((1.0,), (2.0,)), log, rests=0.5)
    looker.start()
    for number in range(5):
        looker.want(("pair", f"run-{number}", 0))
    until(lambda: looker.found is not None and bool(looker.found.log))
    assert asked == [("pair", "run-4", 0)]
    assert looker.found == closer.Closer(("pair", "run-4", 0), (1.0,), (2.0,), ("a line",))
    looker.want(None)
    looker.stop()
    looker._thread.join(20)
    assert not looker._thread.is_alive()


def test_the_end_does_not_wait_for_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, "import time; time.sleep(99)")
    begun = threading.Event()

    def log(key: Key, tell: Any) -> tuple[list[str], str]:
        def both(child: Any) -> None:
            tell(child)
            begun.set()

        return log_of(key, both)

    looker = Looker(lambda _key: ((), ()), log, rests=0.0)
    looker.start()
    looker.want(KEY)
    assert begun.wait(20)
    looker.stop()
    looker._thread.join(20)
    assert not looker._thread.is_alive()
