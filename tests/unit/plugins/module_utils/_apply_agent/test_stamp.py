"""What a machine looked like, and what is different now."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import glance, named, stamp
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.stamp import (
    Watch,
    _below,
    differences,
    failures,
    look,
)
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import RunFiles


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(glance, "mounts", dict)
    monkeypatch.setattr(glance, "units", lambda _patterns: {})
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
    assert any(name.startswith("/") for name in glance.mounts())
    assert isinstance(glance.units(["tpu-fleet-*"]), dict)


def units(listed: str) -> dict[str, str]:
    return {f"unit {name}": f"{state}\0" for name, state in glance.states(listed).items()}


def test_a_unit_that_runs_for_connections_may_come_and_go() -> None:
    def listed(service: str, socket: str) -> dict[str, str]:
        return glance.states(
            f"tpu-fleet-port-a.service loaded {service} Connections\n"
            f"tpu-fleet-port-a.socket loaded {socket} Port\n"
        )

    usual = listed("inactive dead", "active listening")
    assert listed("active running", "active running") == usual
    assert listed("inactive dead", "failed failed") != usual
    assert listed("failed failed", "active listening") != usual


def test_what_comes_and_goes_with_its_timer_is_no_difference() -> None:
    def states(guard: str, cache: str) -> dict[str, str]:
        return units(
            f"""tpu-fleet-guard.service loaded {guard}
tpu-fleet-guard.timer loaded active waiting Look at the disk
tpu-fleet-cache.service loaded {cache}
tpu-fleet-apply.service loaded activating start Ours
tpu-fleet-self-setup.service loaded active running Ours
tpu-fleet-sync-9c41f0e27a55b1d3.service loaded active running Ours
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


def test_a_stop_and_a_start_by_tpu_fleet_are_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert glance.STOPPED.format("digits") == str(RunFiles().mark("digits"))
    monkeypatch.setattr(glance, "STOPPED", str(tmp_path / "{}.json"))

    def of_run(active: str) -> dict[str, str]:
        return units(f"tpu-fleet-run@digits.service loaded {active} Training run digits\n")

    changed = ["unit tpu-fleet-run@digits.service was changed"]
    runs = of_run("active running")
    assert differences(runs, of_run("inactive dead")) == changed  # by systemctl
    assert differences(runs, of_run("activating auto-restart")) == changed
    (tmp_path / "digits.json").touch()
    stopped = of_run("inactive dead")
    assert differences(runs, stopped) == differences(runs, of_run("deactivating stop")) == []
    assert differences(stopped, of_run("active running")) == changed
    assert failures(of_run("failed failed")) == ["unit tpu-fleet-run@digits.service has failed"]
    (tmp_path / "digits.json").unlink()
    assert differences(stopped, of_run("active running")) == []


def test_a_failed_unit_is_no_state_to_be_in() -> None:
    states = units("tpu-fleet-cache.service loaded failed failed\nssh.service loaded active up\n")
    assert failures(states) == ["unit tpu-fleet-cache.service has failed"]
    # Its file was removed, so nobody declares it any more.
    assert units("tpu-fleet-ray.service not-found failed failed\n") == {}


def test_nothing_is_looked_at_where_another_machine_may_be_away() -> None:
    assert _below("/shared/home/alice", ["/shared"])
    assert _below("/shared", ["/shared"])
    assert not _below("/shared-not", ["/shared"])


@pytest.fixture
def alice(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a user who is not root."""
    monkeypatch.setattr(glance, "mounts", dict)
    monkeypatch.setattr(glance, "units", lambda _patterns: {})
    nobody = pwd.getpwnam("nobody")
    home = open_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "authorized_keys").write_text("key\n")
    (home / ".local/share/tpu-fleet").mkdir(parents=True)
    for path in (home, *home.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    about = (nobody.pw_name, "x", nobody.pw_uid, nobody.pw_gid, "", str(home), "/bin/sh")
    account = pwd.struct_passwd(about)
    monkeypatch.setattr(named, "people", lambda: [account])
    monkeypatch.setattr(stamp, "account_of", lambda name: account if name == "nobody" else None)
    return home


def homes_only(folder: Path) -> Watch:
    return Watch(
        trees=(),
        files=(),
        units=(),
        records=(str(folder / "*.json"),),
        environments=(),
        dotfiles=str(folder / "dotfiles"),
    )


def test_a_home_is_looked_at_as_its_owner(alice: Path, open_path: Path) -> None:
    # Root's, and led to from the home.
    secret = open_path / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key").write_text("hush\n")
    (alice / ".config").symlink_to(secret)
    (open_path / "dotfiles").mkdir()
    (open_path / "dotfiles/nobody.json").write_text('{"links": [".vimrc", "../../etc/shadow", 5]}')
    found = look(homes_only(open_path))
    assert f"{alice}/.ssh/authorized_keys" in found
    assert found[f"{alice}/.vimrc"].startswith("absent")
    assert not [path for path in found if "shadow" in path or "secret" in path]
    assert hashlib.sha256(b"hush\n").hexdigest() not in json.dumps(found)


def test_pipes_in_a_home_hold_nobody_up(alice: Path, open_path: Path) -> None:
    os.mkfifo(alice / ".local/share/tpu-fleet/dotfiles.json")
    os.mkfifo(alice / ".netrc")
    os.mkfifo(alice / ".ssh/pipe")
    began = time.monotonic()
    found = look(homes_only(open_path))
    assert time.monotonic() - began < 2 * stamp.SECONDS
    assert found[f"{alice}/.netrc"].startswith("1")
    assert f"{alice}/.ssh/pipe" in found


def test_a_home_that_cannot_be_looked_at_is_told_once_and_costs_the_others_nothing(
    alice: Path, open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamp, "_MOST_ENTRIES", 3)
    monkeypatch.setattr(stamp._walk, "__defaults__", (3,))
    for number in range(5):
        (alice / ".ssh" / f"{number}").touch()
    (open_path / "of-root.json").write_text("{}")
    found = look(homes_only(open_path))
    (told,) = [name for name in found if "cannot be looked at" in name]
    assert told.startswith("home of nobody, which cannot be looked at (nobody: ")
    assert f"{alice}/.ssh has more than 3 entries" in told
    # The next look finds it as it was.
    assert differences(found, look(homes_only(open_path), found)) == []


def test_a_pipe_in_the_place_of_what_is_hashed_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    there = (tmp_path / "file").lstat()
    (tmp_path / "file").unlink()
    os.mkfifo(tmp_path / "file")
    assert stamp._content(str(tmp_path / "file"), there).startswith("1 ")


def test_own_changes_are_taken_for_declared_and_no_others() -> None:
    before = {"/own": "a", "/own/gone": "a", "/other": "a", "/other/gone": "a"}
    now = {"/own": "b", "/own/new": "b", "/other": "b", "/other/new": "b"}
    kept = stamp.with_own(before, now, lambda path: path.startswith("/own"))
    assert kept == {"/own": "b", "/own/new": "b", "/other": "a", "/other/gone": "a"}


def test_a_part_is_seen_as_in_a_look_at_everything(etc: Path) -> None:
    record = etc / "record.json"
    record.write_text(json.dumps({"path": str(etc / "sub"), "file": str(etc / "file")}))
    whole = Watch(
        trees=(str(etc),), closed=(str(etc / "closed"),), files=(), homes=(), units=("x",),
        records=(str(etc / "*.json"),), environments=(),
    )  # fmt: skip
    own = {str(record), str(etc / "file"), str(etc / "closed" / "large"), "/elsewhere"}
    part = stamp.part_of(whole, own, [str(etc / "sub"), str(etc / "closed" / "x")], [str(record)])
    found = look(part)
    wanted = {str(record), str(etc / "file"), str(etc / "sub"), str(etc / "sub" / "deep")}
    assert found == {path: state for path, state in look(whole).items() if path in wanted}
    assert set(found) == wanted
