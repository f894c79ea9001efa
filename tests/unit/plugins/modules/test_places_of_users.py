"""What root does in places that a user can write: only as the user, bounded, and for each alone."""

from __future__ import annotations

import os
import pwd
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import gather as doctor_gather
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.probe import Probe, probe_all
from ansible_collections.tpu.fleet.plugins.module_utils._host import services_act, services_look
from ansible_collections.tpu.fleet.plugins.module_utils._host.as_user import (
    UserError,
    as_user,
    foreign,
    give_folder,
    refuse_foreign,
)
from ansible_collections.tpu.fleet.plugins.module_utils._host.work import Failed
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import (
    act as _code_apply,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import (
    apply as _code_trees,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import (
    plan as _code_plan,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout.plan import tree_of
from ansible_collections.tpu.fleet.plugins.module_utils._roles.data_disk import look as _disk_look
from ansible_collections.tpu.fleet.plugins.module_utils._roles.data_disk.plan import Wanted
from ansible_collections.tpu.fleet.plugins.module_utils._roles.env_secrets import (
    act as _secret_files,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.env_secrets import (
    apply as _secret_sets,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.env_secrets.act import look_at
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access import (
    apply as _git_access,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access.act import (
    read_ours,
    settle,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access.plan import Home
from ansible_collections.tpu.fleet.plugins.module_utils._roles.nfs_share import act as _nfs_act
from ansible_collections.tpu.fleet.plugins.module_utils._roles.nfs_share.plan import (
    Export,
    Mount,
    Plan,
    Times,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.user_accounts import (
    act as _account_steps,
)
from ansible_collections.tpu.fleet.plugins.modules import bucket_mount, data_disk

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def shared(open_path: Path) -> Path:
    """Return a folder that only root writes, and that every user can enter."""
    return open_path


@pytest.fixture
def theirs(shared: Path) -> Path:
    """Return a folder of the user nobody."""
    folder = shared / "theirs"
    folder.mkdir()
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    return folder


def test_root_gives_away_only_what_nobody_can_swap(shared: Path, theirs: Path) -> None:
    (shared / "ours").mkdir()
    give_folder(shared / "ours", NOBODY.pw_uid, NOBODY.pw_gid, 0o700)
    seen = (shared / "ours").stat()
    assert (seen.st_uid, stat.S_IMODE(seen.st_mode)) == (NOBODY.pw_uid, 0o700)
    (theirs / "made").mkdir()
    with pytest.raises(UserError, match=f"{theirs} can be changed by others"):
        give_folder(theirs / "made", NOBODY.pw_uid, NOBODY.pw_gid, 0o700)
    # A link is not followed to what it leads to, wherever it is.
    (shared / "secret").mkdir(mode=0o700)
    (shared / "link").symlink_to("secret")
    with pytest.raises(OSError, match="link"):
        give_folder(shared / "link", NOBODY.pw_uid, NOBODY.pw_gid, 0o700)
    assert (shared / "secret").stat().st_uid == os.getuid()


def test_folders_that_others_write_are_refused(shared: Path) -> None:
    folder = shared / "open"
    folder.mkdir()
    for mode, refused in ((0o755, False), (0o777, True), (0o775, True), (0o1777, False)):
        folder.chmod(mode)
        if refused:
            with pytest.raises(UserError, match=str(folder)):
                refuse_foreign(folder / "below")
        else:
            refuse_foreign(folder / "below")


def test_who_can_change_a_program(shared: Path, theirs: Path) -> None:
    ours = shared / "python"
    ours.touch()
    assert foreign(ours) is None
    # Root's program, behind a link that its owner can swap.
    (theirs / "venv").symlink_to(shared)
    os.chown(theirs / "venv", NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    assert foreign(theirs / "venv" / "python") == str(theirs)
    folder = shared / "open"
    folder.mkdir()
    (folder / "python").touch()
    folder.chmod(0o777)
    assert foreign(folder / "python") == str(folder)


def test_a_pipe_among_settings_of_git_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / ".config/git").mkdir(parents=True)
    os.mkfifo(tmp_path / ".config/git/config")
    began = time.monotonic()
    with pytest.raises(UserError, match=r"\.config/git/config is not a plain file"):
        settle("ssh-keygen", str(tmp_path), Home("ada", settings="[user]\n"), [], check=False)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "target", ["/proc/version", "/dev/zero", "/proc/none/config", "/dev/null/config"]
)
def test_settings_of_git_behind_a_link_are_named_by_the_link(tmp_path: Path, target: str) -> None:
    config = tmp_path / ".config/git/config"
    config.parent.mkdir(parents=True)
    config.symlink_to(target)
    with pytest.raises(UserError, match=rf"^{config}, a link to {target}: "):
        settle("ssh-keygen", str(tmp_path), Home("ada", settings="[user]\n"), [], check=False)


def test_what_lies_in_the_place_of_a_key_file_is_replaced_but_for_folders(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/shadow")
    os.mkfifo(tmp_path / "pipe")
    assert [read_ours(tmp_path / name) for name in ("link", "pipe", "none")] == ["", "", None]
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="/folder is not a plain file"):
        read_ours(tmp_path / "folder")


def test_a_pipe_that_takes_the_place_of_a_secret_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    there = (tmp_path / "file").lstat()
    (tmp_path / "file").unlink()
    os.mkfifo(tmp_path / "file")
    monkeypatch.setattr("os.lstat", lambda _path: there)
    with pytest.raises(UserError, match="not a plain file"):
        look_at(str(tmp_path / "file"), b"key")


def test_the_folder_of_a_service_is_made_by_its_user(theirs: Path, shared: Path) -> None:
    services_act.make_folder("nobody", str(theirs / "notes" / "deep"))
    assert (theirs / "notes" / "deep").stat().st_uid == NOBODY.pw_uid
    with pytest.raises(Failed, match=r"cannot be created as nobody: .*Permission denied"):
        services_act.make_folder("nobody", str(shared / "notes"))
    (theirs / "state").symlink_to(shared)
    with pytest.raises(UserError, match="can be changed by others"):
        services_act.make_private(NOBODY, str(theirs / "state"))
    services_act.make_private(NOBODY, str(shared / "state"))
    assert (shared / "state").stat().st_uid == NOBODY.pw_uid


def test_patterns_are_looked_for_as_the_user(theirs: Path, shared: Path) -> None:
    (shared / "secret").mkdir(mode=0o700)
    (shared / "secret" / "x").touch()
    (theirs / "x").touch()
    assert services_look.there("nobody", f"{theirs}/?")
    assert not services_look.there("nobody", f"{shared}/secret/?")


def test_a_service_that_cannot_be_had_stops_none_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready: list[Any] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.service = self
            self.name = name

    def prepare(entry: Any) -> None:
        if entry.name == "a":
            raise Failed("/home/alice/x is a pipe")

    monkeypatch.setattr(services_act, "prepare", prepare)
    monkeypatch.setattr(services_act, "write_files", ready.append)
    entries: Any = [Named("a"), Named("b")]
    left, problems = services_act.prepared(entries)
    assert [entry.service.name for entry in left] == ["b"]
    assert ready == left
    assert problems == ["a: /home/alice/x is a pipe"]


def test_the_link_to_a_tree_is_removed_with_the_owners_rights(
    theirs: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_code_plan, "RECORDS", str(shared / "records"))
    tree = tree_of({"name": "x", "user": "nobody", "path": f"{theirs}/code/x", "repo": "r"})
    # The owner put a folder of root's in the place of their own.
    (shared / "of-root").mkdir()
    (shared / "of-root" / "x").symlink_to(f"{tree.releases}/1")
    (theirs / "code").symlink_to(shared / "of-root")
    with pytest.raises(UserError):
        as_user(NOBODY, lambda: _code_apply.remove_link(tree))
    apply = _code_trees.Apply({**PARAMS, "trees": []}, False)
    with pytest.raises(UserError):
        apply._forget(tree, NOBODY)
    assert (shared / "of-root" / "x").is_symlink()


PARAMS: dict[str, Any] = {"versions": {}, "incoming": "/nowhere", "keep": 3, "slice": ""}


def test_a_tree_in_the_way_stops_none_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        {"name": name, "user": "nobody", "repo": "r", "slices": []} for name in ("bad", "good")
    ]
    apply = _code_trees.Apply({**PARAMS, "trees": entries}, False)

    def looked(_user: Any, work: Any, **_more: Any) -> Any:
        tree = work.__defaults__[0]
        if tree.name == "bad":
            raise UserError("the work took longer than its time limit")
        return {"dest": "absent", "target": "", "changes": [], "there": False}

    put: list[str] = []
    monkeypatch.setattr(_code_trees, "as_user", looked)
    monkeypatch.setattr(apply, "_put", lambda tree, *_more: put.append(tree.name))
    apply.given = {"bad": "1" * 40, "good": "2" * 40}
    apply.look()
    apply.put()
    assert put == ["good"]
    assert apply.problems == [
        "fleet_code[0] (bad, /opt/tpu-fleet/code/bad): the work took longer than its time limit"
    ]


def test_keys_of_one_home_that_cannot_be_written_leave_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = _git_access.Host("solo", False)
    settled: list[str] = []

    def settle_one(home: Home, _privates: Any) -> dict[str, str]:
        if home.user == "mallory":
            raise UserError("mallory: /home/mallory/.ssh/x is not a plain file")
        settled.append(home.user)
        return {}

    monkeypatch.setattr(host, "settle", settle_one)
    monkeypatch.setattr(host, "system_file", lambda *_words: None)
    monkeypatch.setattr(host, "forget_machine_keys", lambda *_words: None)
    identities = [
        {"user": user, "name": user, "email": "x@y", "config": {}, "safe_directories": []}
        for user in ("mallory", "alice")
    ]
    settings = {"slice": "solo", "keys": [], "identities": identities, "hosts": []}
    _git_access.bring_about(host, settings, [], tmp_path / "git_access.json")
    assert settled == ["alice"]
    assert host.problems == ["mallory: /home/mallory/.ssh/x is not a plain file"]


def test_a_file_of_one_owner_in_the_way_leaves_the_others_theirs(
    tmp_path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Everybody writes in /tmp, where the folders of tests are.
    monkeypatch.setattr(_secret_files, "refuse_unsafe", lambda _folder: None)
    entries = [
        {"name": "one", "user": "nobody", "files": [{"path": f"{theirs}/a", "content": "1"}]},
        {"name": "two", "user": "nobody", "files": [{"path": f"{theirs}/b", "content": "2"}]},
    ]
    os.mkfifo(theirs / "a")
    apply = _secret_sets.Apply(
        {
            "google_endpoint": "",
            "google_project": "",
            "slice": "",
            "sets": [{**entry, "slices": [], "env": {}} for entry in entries],
        },
        False,
        tmp_path / "sets",
        tmp_path / "profile",
    )
    apply.carry_out(apply.plan())
    assert (theirs / "b").read_text() == "2"
    assert apply.problems == [
        f"{theirs}/a of nobody: there is a other where the file should be; move it away"
    ]


# More than the memory of any machine that runs the tests.
HUGE = 1 << 42


def huge(path: Path) -> Path:
    """Make a file of the user nobody that takes no room on the disk, and all memory when read."""
    path.touch(mode=0o600)
    try:
        os.truncate(path, HUGE)
    except OSError:  # the file system takes no larger one
        os.truncate(path, HUGE >> 4)
    os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    return path


def test_a_set_that_its_owner_made_huge_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    path = huge(tmp_path / "sets" / "one.env")
    settings = {"google_endpoint": "", "google_project": "", "slice": "", "sets": []}
    apply = _secret_sets.Apply(settings, False, tmp_path / "sets", tmp_path / "profile")
    apply._own(path, "A=1\n", 0o600, NOBODY.pw_uid, NOBODY.pw_gid)
    assert path.read_text() == "A=1\n"
    assert apply.steps == [f"write {path}"]
    apply._own(path, "A=1\n", 0o600, NOBODY.pw_uid, NOBODY.pw_gid)
    assert apply.steps == [f"write {path}"]


@pytest.mark.parametrize("given", ["given", ""])
def test_a_token_that_its_user_made_huge_is_written_again(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Named:
        keep_token = True
        token = given
        token_file = huge(tmp_path / "x.token")

        def __init__(self) -> None:
            self.service = self
            self.user = "nobody"

    entry: Any = Named()
    assert not services_look.token_is_as_wanted(entry)
    services_act.write_token(entry, NOBODY)
    made = entry.token_file.read_text()
    assert made == given or (not given and len(made) > 30)
    assert services_look.token_is_as_wanted(entry)
    services_act.write_token(entry, NOBODY)
    assert entry.token_file.read_text() == made


def test_arguments_of_one_service_that_cannot_be_looked_at_stop_none_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def entry_of(_role: str, params: dict[str, Any], _tokens: dict[str, Any]) -> str:
        if params["name"] == "a":
            raise Failed("/home/alice/* cannot be looked at")
        return str(params["name"])

    monkeypatch.setattr(services_look, "entry_of", entry_of)
    left, problems = services_look.described("r", [{"name": "a"}, {"name": "b"}], {})
    assert left == ["b"]
    assert problems == ["a: /home/alice/* cannot be looked at"]


class Ended(Exception):
    """What a module said as it failed."""


class FakeModule:
    """A module that runs nothing."""

    check_mode = False

    check_mode = False

    def fail_json(self, msg: str) -> None:
        raise Ended(msg)

    def exit_json(self, **_result: Any) -> None:
        raise Ended("no problem")

    def warn(self, text: str) -> None:
        raise AssertionError(text)

    def run_command(self, argv: list[str]) -> tuple[int, str, str]:
        raise AssertionError(argv)


def test_no_disk_is_mounted_where_somebody_leads_root(
    theirs: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs / "data").symlink_to(shared)
    mount = f"{theirs}/data/x"
    entry = {
        "name": "fast", "path": mount, "device": None, "filesystem": "ext4",
        "user": "root", "group": None, "permissions": "0755", "options": [],
        "read_only": False, "adopt": False,
    }  # fmt: skip
    where = {"slices": [], "workers": []}
    settings = {
        "disks": [{**entry, **where}], "attached": [], "device_timeout": 0,
        "slice": "solo", "worker_index": 0,
    }  # fmt: skip
    monkeypatch.setattr(data_disk, "role_module", lambda **_more: (FakeModule(), settings))
    monkeypatch.setattr(_disk_look, "find_devices", lambda *_words: {})
    with pytest.raises(Ended) as told:
        data_disk.main()
    text = str(told.value)
    assert f"disk 'fast': path = '{mount}': root does nothing in" in text
    assert "such as /data" in text
    fine = replace(Wanted(**{**entry, "options": ()}), path=f"{shared}/new/data")
    assert _disk_look.places_of_others([fine]) == []


@pytest.mark.parametrize("key", ["path", "cache_dir"])
def test_no_folder_for_a_bucket_is_made_where_somebody_leads_root(
    key: str, theirs: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs / "data").symlink_to(shared)
    entry = {"bucket": "b", "path": f"{shared}/fine", "cache_dir": None}
    entry[key] = f"{theirs}/data/x"
    settings = {
        "buckets": [entry],
        "slice": "",
        "zone": "",
        "apt_uri": "",
        "apt_key": "",
        "version": "",
    }
    monkeypatch.setattr(bucket_mount, "role_module", lambda **_more: (FakeModule(), settings))
    monkeypatch.setattr(bucket_mount.buckets, "apt_files", lambda *_words: {})
    monkeypatch.setattr(bucket_mount.Mounter, "version", lambda _self: "3.0")
    monkeypatch.setattr(
        bucket_mount.Mounter, "units", lambda self, _automount: self.place(entry) or []
    )
    monkeypatch.setattr(bucket_mount.Mounter, "bring_about", lambda *_words: None)
    with pytest.raises(Ended, match=f"{key} = .* can be changed by others. .* such as /data"):
        bucket_mount.main()
    assert not (shared / "x").exists()


@pytest.mark.parametrize("kind", ["export", "mount"])
def test_no_share_is_made_where_somebody_leads_root(
    kind: str, theirs: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs / "data").symlink_to(shared)
    path = f"{theirs}/data/x"
    monkeypatch.setattr(_nfs_act, "files_now", dict)
    export = Export("team", path, path, False, "root", "root", "0755", ())
    mount = Mount("team", "10.0.0.1", "/srv/team", path, False, False)
    wanted = Plan(exports=(export,)) if kind == "export" else Plan(mounts=(mount,))
    run = FakeModule().run_command
    work = _nfs_act.Work(run, False, wanted, Times(30, 15, 600, 20))
    for step in ("stop_what_changed", "write", "mask", "serve", "mount"):
        monkeypatch.setattr(work, step, lambda *_words: None)
    with pytest.raises(Failed, match=r"share 'team': path = .* such as /data"):
        work.run()
    assert not (shared / "x").exists()


def test_root_makes_no_folder_that_it_then_refuses(theirs: Path, shared: Path) -> None:
    (theirs / "data").symlink_to(shared)
    with pytest.raises(UserError, match="can be changed by others"):
        services_act.make_private(NOBODY, f"{theirs}/data/deep/x")
    with pytest.raises(Failed, match="only root can write"):
        _account_steps.make_home(f"{theirs}/data/home/x", "nobody")
    assert not list(shared.glob("deep")) + list(shared.glob("home"))


def test_the_doctor_reads_only_so_much_of_what_a_program_says() -> None:
    program = [sys.executable, "-c", "print('x' * (1 << 23))"]
    with pytest.raises(UserError, match="it said more than"):
        doctor_gather._run(program, {})
    assert doctor_gather.told("head", "-c", str(1 << 23), "/dev/zero") == ""
    assert doctor_gather.told("sh", "-c", "echo yes; echo no >&2").split() == ["yes", "no"]
    found, failed = probe_all([Probe("much", lambda: "x" * (1 << 24), 60)], 60)
    assert found == {}
    assert "answered more than" in failed["much"]


def test_a_program_of_the_doctor_ends_with_the_look(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = ["/bin/sh", "-c", f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 600"]

    def look() -> Any:
        return doctor_gather._run(program, {})

    _found, failed = probe_all([Probe("slow", look, 3)], 3)
    assert failed["slow"].startswith("no answer")
    pid = int(note.read_text())
    end = time.monotonic() + 30
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < end
        time.sleep(0.05)
