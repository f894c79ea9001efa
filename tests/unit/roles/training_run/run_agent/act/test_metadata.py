"""What the metadata server says of the loss of the machine."""

from __future__ import annotations

import threading
import time
from itertools import chain, repeat

import pytest
from run_agent.act import metadata


@pytest.mark.parametrize(
    ("said", "taken"), [("TRUE\n", True), ("FALSE", False), (None, False), ("", False)]
)
def test_a_machine_that_is_taken_back(
    said: str | None, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def get(url: str) -> str | None:
        asked.append(url)
        return said

    monkeypatch.setattr(metadata, "_get", get)
    assert metadata.is_preempted("http://metadata") is taken
    assert asked == ["http://metadata/computeMetadata/v1/instance/preempted"]


def test_a_watch_that_is_closed_asks_no_more() -> None:
    before = set(threading.enumerate())
    watch = metadata.Watch("http://x", 600.0, lambda _url: (None, "NONE"), lambda _url: False)
    (thread,) = set(threading.enumerate()) - before
    watch.close()
    thread.join(30)
    assert not thread.is_alive()


def test_the_watch_notices_it_whatever_is_announced() -> None:
    answers = chain([False], repeat(True))
    watch = metadata.Watch(
        "http://x", 0.01, lambda _url: (None, "NONE"), lambda _url: next(answers)
    )
    deadline = time.monotonic() + 10
    while not watch.preempted and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (watch.preempted, watch.known) == (True, True)
