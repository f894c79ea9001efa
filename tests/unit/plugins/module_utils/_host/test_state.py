"""What is recorded on the host."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import state as host_state
from ansible_collections.tpu.fleet.plugins.module_utils._host.state import locker, updated

FACTS = {"hash": "a" * 64}


def test_the_same_again_is_equal_even_later() -> None:
    first = updated({}, "host_base", FACTS, {"boot_id": "b1"}, "2026-01-01T00:00:00Z")
    again = updated(first, "host_base", FACTS, {"boot_id": "b1"}, "2026-02-02T00:00:00Z")
    assert again == first
    assert first["applied"]["host_base"] == {**FACTS, "at": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("facts", "identity"),
    [
        ({"hash": "b" * 64}, {"boot_id": "b1"}),
        (FACTS, {"boot_id": "b2"}),
        (FACTS, {"node_uid": "7"}),
    ],
)
def test_what_is_new_is_seen(facts: dict[str, str], identity: dict[str, str]) -> None:
    first = updated({}, "host_base", FACTS, {"boot_id": "b1"}, "then")
    assert updated(first, "host_base", facts, identity, "now") != first


def test_sections_stand_side_by_side() -> None:
    state = updated({}, "one", FACTS, None, "then")
    state = updated(state, "two", FACTS, None, "now")
    assert state["applied"]["one"]["at"] == "then"
    assert state["applied"]["two"]["at"] == "now"


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "state.json"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(host_state.os, "fchown", lambda *_: None)
    monkeypatch.setattr(host_state.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        host_state.write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_dry_record_writes_nothing_and_a_broken_state_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_state.os, "fchown", lambda *_: None)
    (tmp_path / "state.json").write_text("{broken")
    before, after = host_state.record("x", FACTS, state_dir=tmp_path, dry=True)
    assert before == {}
    assert after["applied"]["x"]["hash"] == FACTS["hash"]
    assert (tmp_path / "state.json").read_text() == "{broken"
    host_state.record("x", FACTS, state_dir=tmp_path)
    assert json.loads((tmp_path / "state.json").read_text())["applied"]["x"]["hash"]


def test_what_was_replaced_outlasts_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is on disk before its new name, and the name before it is used."""
    synced = []

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(("folder" if is_folder else "file", (tmp_path / "memory.json").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "memory.json"
    host_state.write_atomically(path, "{}", uid=os.getuid(), gid=os.getgid())
    assert synced == [("file", False), ("folder", True)]


def test_the_holder_of_a_lock_is_found_without_taking_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    assert locker(str(lock)) is None
    assert locker(str(tmp_path / "none")) is None
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with lock.open("w") as stream:
            fcntl.lockf(stream, fcntl.LOCK_EX)
            os.write(tell, b"x")
            signal.pause()
        os._exit(0)
    try:
        os.read(ready, 1)
        assert locker(str(lock)) == child
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert locker(str(lock)) is None


def test_the_end_of_a_process_is_waited_for() -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        assert not host_state.wait_for_end(child, 0.05)
        os.kill(child, signal.SIGKILL)
        assert host_state.wait_for_end(child, 60)
    finally:
        os.waitpid(child, 0)
    assert host_state.wait_for_end(child, 60)
