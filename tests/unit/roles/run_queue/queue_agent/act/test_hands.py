"""One job at a time: what is wrong with one run is no problem of the next."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from queue_agent.act import hands as module
from queue_agent.act.code import CannotInstall
from queue_agent.act.hands import Hands
from queue_agent.decide.member import INSTALL
from queue_agent.decide.messages import RUN, Order

ONE, TWO = Order(RUN, "one", "a" * 64, 3), Order(RUN, "two", "b" * 64, 1)


class Installs:
    """Installs nothing: of `one` the code is bad, and that is seen only when it may go on."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.done: list[str] = []

    def install(self, order: Order, _queue: Any) -> None:
        self.goes_on.wait(10)
        if order.run == "one":
            raise CannotInstall("code: it leads out of the folder", True)
        self.done.append(order.run)


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> Installs:
    class Closed:
        def __init__(self, _settings: Any) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr(module, "MachinesBucket", Closed)
    monkeypatch.setattr(module, "Queue", lambda bucket: bucket)
    return Installs()


def woken() -> None: ...


def settled(hands: Hands) -> None:
    deadline = time.monotonic() + 10
    while hands.is_busy and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_problem_names_the_run_that_it_is_about(installs: Any) -> None:
    hands = Hands(object(), installs, woken)  # type: ignore[arg-type]
    installs.goes_on.set()
    hands.do(INSTALL, ONE, "")
    settled(hands)
    assert (hands.problem, hands.final) == ("code: it leads out of the folder", True)
    assert hands.about == ("one", 3)
    hands.do(INSTALL, TWO, "")
    settled(hands)
    assert (hands.problem, hands.final, hands.about) == ("", False, ("two", 1))
    assert installs.done == ["two"]


def test_a_job_that_ends_late_says_nothing_about_the_next_run(installs: Any) -> None:
    hands = Hands(object(), installs, woken)  # type: ignore[arg-type]
    hands.do(INSTALL, ONE, "")
    hands.do(INSTALL, TWO, "")
    installs.goes_on.set()
    settled(hands)
    assert (hands.problem, hands.final, hands.about) == ("", False, ("two", 1))
