"""What a machine looked like, and what is different now."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import stamp
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.stamp import (
    Watch,
    _below,
    _states,
    differences,
    failures,
    look,
)


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stamp, "_mounts", dict)
    monkeypatch.setattr(stamp, "_units", lambda _patterns: {})
    etc = tmp_path / "etc"
    (etc / "sub").mkdir(parents=True)
    (etc / "file").write_text("one\n")
    (etc / "sub" / "deep").write_text("two\n")
    (etc / "link").symlink_to("file")
    (etc / "closed").mkdir()
    (etc / "closed" / "large").write_text("three\n")
    return etc


def seen(etc: Path, before: dict[str, str] | None = None) -> dict[str, str]:
    watch = Watch(
        trees=(str(etc),),
        closed=(str(etc / "closed"),),
        files=(),
        homes=(),
        units=(),
        records=(),
        environments=(),
    )
    return look(watch, before)


def rewrite(etc: Path) -> None:
    (etc / "new").write_text("one\n")
    (etc / "new").chmod((etc / "file").stat().st_mode & 0o777)
    (etc / "new").replace(etc / "file")


def same_size_and_time(etc: Path) -> None:
    there = (etc / "file").stat()
    (etc / "file").write_text("oNe\n")
    os.utime(etc / "file", ns=(there.st_atime_ns, there.st_mtime_ns))


def relink(etc: Path) -> None:
    (etc / "link").unlink()
    (etc / "link").symlink_to("sub")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _etc: None, []),
        (rewrite, []),
        (lambda etc: (etc / "closed" / "more").touch(), []),
        (lambda etc: (etc / "file").write_text("other\n"), ["file was changed"]),
        (same_size_and_time, ["file was changed"]),
        (lambda etc: (etc / "file").chmod(0o600), ["file was changed"]),
        (lambda etc: (etc / "sub" / "deep").unlink(), ["sub/deep is gone"]),
        (lambda etc: (etc / "sub" / "more").touch(), ["sub/more is new"]),
        (relink, ["link was changed"]),
    ],
)
def test_what_is_noticed(etc: Path, change: Callable[[Path], object], told: list[str]) -> None:
    before = seen(etc)
    change(etc)
    assert differences(before, seen(etc, before)) == [f"{etc}/{line}" for line in told]


def test_what_was_not_touched_is_not_read_again(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = seen(etc)
    (etc / "file").write_text("other\n")
    read: list[str] = []
    original = stamp._content
    monkeypatch.setattr(
        stamp, "_content", lambda path, there: (read.append(path), original(path, there))[1]
    )
    seen(etc, before)
    assert read == [f"{etc}/file"]


def test_units_and_mounts_of_this_computer_can_be_read() -> None:
    assert any(name.startswith("mount /") for name in stamp._mounts())
    assert isinstance(stamp._units(["tpu-fleet-*"]), dict)


def test_what_comes_and_goes_with_its_timer_is_no_difference() -> None:
    def states(guard: str, cache: str) -> dict[str, str]:
        return _states(
            f"""tpu-fleet-guard.service loaded {guard}
tpu-fleet-guard.timer loaded active waiting Look at the disk
tpu-fleet-cache.service loaded {cache}
tpu-fleet-apply.service loaded activating start Ours
tpu-fleet-self-setup.service loaded active running Ours
"""
        )

    usual = states("inactive dead", "active running")
    assert set(usual) == {f"unit tpu-fleet-{n}" for n in ("guard.service", "guard.timer")} | {
        "unit tpu-fleet-cache.service"
    }
    assert differences(usual, states("activating start", "active running")) == []
    assert differences(usual, states("failed failed", "inactive dead")) == [
        "unit tpu-fleet-cache.service was changed",
        "unit tpu-fleet-guard.service was changed",
    ]


def test_a_failed_unit_is_no_state_to_be_in() -> None:
    states = _states("tpu-fleet-cache.service loaded failed failed\nssh.service loaded active up\n")
    assert failures(states) == ["unit tpu-fleet-cache.service has failed"]


def test_nothing_is_looked_at_where_another_machine_may_be_away() -> None:
    assert _below("/shared/home/alice", ["/shared"])
    assert _below("/shared", ["/shared"])
    assert not _below("/shared-not", ["/shared"])
