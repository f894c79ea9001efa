"""Whether the program of a run gets its chips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_agent.act import chip_holders
from run_agent.act.chip_starts import ChipStarts
from run_agent.decide import config
from run_definition import PUBLIC

BUSY = "open(/dev/vfio/0): Device or resource busy"
BEGINS = "--- tpu-fleet 2026-11-29T17:00:00Z attempt {} of demo begins on worker 0\n"


class Log:
    """The user's files, of which only the log is read."""

    def __init__(self, text: str) -> None:
        self.text = text

    def tail(self, _path: Path, limit: int) -> bytes:
        return self.text.encode()[-limit:]


def watch_of(text: str, folder: Path, **more: Any) -> ChipStarts:
    told = {**PUBLIC, "run": "demo", "needs_tpu": "true", **more}
    paths = {**PUBLIC.get("paths", {}), "root": str(folder)}
    log: Any = Log(text)
    return ChipStarts(config.parse({**told, "paths": paths}, {}), log)


@pytest.fixture(autouse=True)
def no_holder(monkeypatch: pytest.MonkeyPatch) -> list[chip_holders.Holder]:
    """Let a test say which processes hold chips."""
    found: list[chip_holders.Holder] = []
    monkeypatch.setattr(ChipStarts, "_holders", lambda _self: found)
    return found


def test_only_what_this_attempt_printed_counts(tmp_path: Path) -> None:
    text = BEGINS.format(1) + BUSY + "\n" + BEGINS.format(2) + "step 1\n"
    assert watch_of(text, tmp_path).failure(2) == ""
    text = text + BUSY + "\n--- tpu-fleet x attempt 2 ended with exit code 1\n"
    assert watch_of(text, tmp_path).failure(2) == BUSY
    assert watch_of(text, tmp_path, needs_tpu="false").failure(2) == ""


def test_chips_that_another_user_holds_are_not_broken(
    tmp_path: Path, no_holder: list[chip_holders.Holder]
) -> None:
    no_holder.append(chip_holders.Holder(7, 4242, ("/dev/vfio/0",)))
    assert watch_of(BEGINS.format(1) + BUSY, tmp_path).failure(1) == ""


def test_a_late_start_is_asked_for_its_chips(
    tmp_path: Path,
    no_holder: list[chip_holders.Holder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("run_agent.act.terminal.uid_of", lambda _user: 2001)
    watch = watch_of("", tmp_path)
    assert watch.opened is None
    watch.look_at_late_start(100.0)
    assert watch.opened is False
    no_holder.append(chip_holders.Holder(7, 2001, ("/dev/vfio/0",)))
    watch.look_at_late_start(130.0)
    assert watch.opened is False
    watch.look_at_late_start(170.0)
    assert watch.opened is True
    watch.begin()
    assert watch.opened is None
