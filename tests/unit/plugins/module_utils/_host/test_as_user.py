"""Root touches what belongs to a user only as that user."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.as_user import (
    PATH,
    TimeLimitError,
    UserError,
    account_of,
    as_user,
    command_as,
    confined,
    foreign,
    read_as,
    read_plain,
    run,
    run_as,
    write_plain,
)

ME = pwd.getpwuid(os.getuid())
USER = pwd.getpwnam("nobody") if os.getuid() == 0 else ME


@pytest.fixture
def theirs(open_path: Path) -> Path:
    """Return a folder of the user nobody, in one that this user can enter."""
    folder = open_path / "theirs"
    folder.mkdir()
    nobody = pwd.getpwnam("nobody")
    os.chown(str(folder), nobody.pw_uid, nobody.pw_gid)
    return folder


def test_the_result_comes_back_from_a_process_with_an_environment_of_its_own() -> None:
    os.environ["OF_ROOT"] = "secret"
    said = as_user(ME, lambda: {"home": os.environ["HOME"], "has": "OF_ROOT" in os.environ})
    assert said == {"home": ME.pw_dir, "has": False}
    assert as_user(ME.pw_name, lambda: os.environ["PATH"]) == PATH


def test_an_error_names_the_file_and_unknown_ones_keep_their_text() -> None:
    def missing() -> str:
        return Path("/nowhere/at-all").read_text(encoding="utf-8")

    with pytest.raises(UserError, match=f"{ME.pw_name}: /nowhere/at-all: No such file"):
        as_user(ME, missing)

    def tells_a_secret() -> None:
        raise ValueError("hunter2")

    with pytest.raises(UserError, match="unexpected ValueError"):
        as_user(ME, tells_a_secret)


def test_the_work_has_no_other_rights(open_path: Path) -> None:
    secret = open_path / "secret"
    secret.write_text("x")
    secret.chmod(stat.S_IRUSR)
    with pytest.raises(UserError, match=r"denied|not permitted"):
        as_user("nobody", secret.read_text)


def test_work_that_hangs_or_stops_itself_ends_at_its_limit() -> None:
    started = time.monotonic()
    with pytest.raises(UserError, match="longer than its time limit"):
        as_user(ME, lambda: time.sleep(600), seconds=0.3)
    with pytest.raises(UserError, match="longer than its time limit"):
        as_user(ME, lambda: os.kill(os.getpid(), 19), seconds=0.3)
    assert time.monotonic() - started < 60


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def behind_one_that_is_stopped() -> None:
    child = subprocess.Popen(["sh", "-c", "kill -STOP $$"])
    child.wait()


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (stopped, "was stopped by a signal"),
        (behind_one_that_is_stopped, "was stopped by a signal"),
        (lambda: time.sleep(600), "waits, and uses no CPU time"),
        (lambda: os.open("pipe", os.O_RDONLY), "waits, and uses no CPU time"),
    ],
)
def test_work_that_its_user_stops_ends_long_before_its_limit(
    theirs: Path, work: Callable[[], Any], why: str
) -> None:
    os.mkfifo(theirs / "pipe")
    os.chown(theirs / "pipe", USER.pw_uid, USER.pw_gid)

    def there() -> None:
        os.chdir(theirs)
        work()

    with pytest.raises(TimeLimitError, match=f"made no progress for 1 seconds: .* {why}"):
        as_user(USER, there, seconds=7200, still=1.0)


def test_a_program_that_its_user_stops_ends_long_before_its_limit() -> None:
    command = confined(USER, ["/bin/sh", "-c", "kill -STOP $$"])
    with pytest.raises(TimeLimitError, match=r"made no progress .* stopped by a signal"):
        run(command, seconds=7200, uid=USER.pw_uid, still=1.0)


def test_what_works_or_waits_for_what_works_is_left_alone(theirs: Path) -> None:
    """One build of a user may wait for the lock of another build of the same user."""
    lock = theirs / "lock"
    lock.touch()
    os.chown(lock, USER.pw_uid, USER.pw_gid)

    def work(seconds: float) -> str:
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                # A part of a core is work, too.
                sum(range(100_000))
                time.sleep(0.01)
        return "done"

    with ThreadPoolExecutor() as pool:
        both = [pool.submit(as_user, USER, lambda: work(3), seconds=600, still=2) for _each in "ab"]
        assert [one.result() for one in both] == ["done", "done"]


def test_a_child_whose_parent_is_killed_ends_at_its_limit() -> None:
    reading, writing = os.pipe()

    def work() -> None:
        os.write(writing, str(os.getpid()).encode())
        time.sleep(600)

    parent = os.fork()
    if parent == 0:
        with contextlib.suppress(BaseException):
            as_user(ME, work, seconds=2)
        os._exit(0)
    child = Path("/proc", os.read(reading, 20).decode(), "stat")
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    started = time.monotonic()
    while child.exists() and child.read_text(encoding="ascii").split()[2] != "Z":
        assert time.monotonic() - started < 60
        time.sleep(0.05)


def test_an_answer_without_end_is_cut() -> None:
    with pytest.raises(UserError, match="answered more than 1000 bytes"):
        as_user(ME, lambda: "x" * 100_000, most_bytes=1000)
    with pytest.raises(UserError, match="ended without an answer"):
        as_user(ME, lambda: os._exit(0))


def test_only_a_plain_file_is_read(open_path: Path) -> None:
    plain = open_path / "plain"
    plain.write_bytes(b"abc")
    assert read_plain(str(plain)) == b"abc"
    assert read_plain(str(open_path / "none")) is None
    assert read_plain(str(plain / "below-a-file")) is None
    (open_path / "link").symlink_to(plain)
    os.mkfifo(str(open_path / "pipe"))
    for name in ("link", "pipe", ""):
        with pytest.raises(UserError, match="not a plain file"):
            read_plain(str(open_path / name))
    with pytest.raises(UserError, match="more than 2 bytes"):
        read_plain(str(plain), 2)


def test_a_link_in_the_place_of_a_file_is_replaced(open_path: Path) -> None:
    victim = open_path / "victim"
    victim.write_text("kept")
    (open_path / "file").symlink_to(victim)
    write_plain(str(open_path / "file"), b"new", 0o600)
    assert victim.read_text() == "kept"
    assert (open_path / "file").read_text() == "new"
    assert stat.S_IMODE((open_path / "file").lstat().st_mode) == 0o600


def test_root_writes_and_reads_in_a_users_folder_as_the_user(theirs: Path, open_path: Path) -> None:
    text = "text\udcff".encode("utf-8", "surrogateescape")
    as_user("nobody", lambda: write_plain(str(theirs / "file"), text))
    assert (theirs / "file").stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert read_as("nobody", str(theirs / "file")) == "text\udcff"
    roots = open_path / "roots"
    roots.mkdir(mode=0o755)
    # The user swaps the folder for a link to one of root's.
    theirs.rename(open_path / "moved")
    theirs.symlink_to(roots)
    with pytest.raises(UserError, match=r"nobody: .*denied"):
        as_user("nobody", lambda: write_plain(str(theirs / "file"), b"text"))
    assert not list(roots.iterdir())


def test_a_command_has_the_users_rights_and_no_environment_but_its_own(open_path: Path) -> None:
    evil = open_path / "env"
    evil.write_text("#!/bin/sh\ntouch ran-as-root\n")
    evil.chmod(0o755)
    command = command_as("nobody", ["/bin/sh", "-c", "id -un; echo $OF_ROOT $A"], {"A": "a"})
    done = subprocess.run(
        command,
        env={"PATH": f"{open_path}:/usr/bin:/bin", "OF_ROOT": "secret"},
        cwd=str(open_path),
        stdout=subprocess.PIPE,
        check=False,
    )
    assert done.stdout.split() == [b"nobody", b"a"]
    assert not (open_path / "ran-as-root").exists()


def test_nobody_by_that_name() -> None:
    assert account_of("no-such-user") is None


def test_a_program_whose_result_is_no_longer_wanted_ends() -> None:
    unwanted = threading.Event()
    timer = threading.Timer(0.3, unwanted.set)
    timer.start()
    try:
        with pytest.raises(UserError, match="no longer wanted"):
            run(["sleep", "600"], {"PATH": "/usr/bin:/bin"}, seconds=300, unwanted=unwanted)
    finally:
        timer.join()


def test_a_program_reads_what_it_is_given_whole_and_cannot_change_it() -> None:
    given = b"0123456789abcdef" * 20_000
    script = "sha256sum; echo x 2>/dev/null >/proc/self/fd/0 || echo refused"
    done = run_as(USER, ["sh", "-c", script], given=given)
    assert done.out.decode().split() == [hashlib.sha256(given).hexdigest(), "-", "refused"]
    # One that does not read it ends as well, and without it there is nothing to read.
    assert run_as(USER, ["true"], given=given).code == 0
    assert run_as(USER, ["cat"]) == (0, b"", b"")


def test_a_program_has_a_limit_of_time_and_of_words() -> None:
    environment = {"PATH": PATH}
    assert run(["sh", "-c", "echo a; echo b >&2; exit 3"], environment, seconds=60) == (
        3,
        b"a\n",
        b"b\n",
    )
    with pytest.raises(UserError, match="longer than its time limit"):
        run(["sleep", "600"], environment, seconds=0.3)
    with pytest.raises(UserError, match="said more than 1000 bytes"):
        run(["cat", "/dev/zero"], environment, seconds=60, most_bytes=1000)
    # What it leaves behind with its pipes open holds nobody, and ends.
    started = time.monotonic()
    command = ["sh", "-c", "sleep 600 & echo $!"]
    said = run(command, environment, seconds=300).out
    assert time.monotonic() - started < 200
    left = Path(f"/proc/{int(said)}/stat")
    while left.exists() and left.read_text(encoding="ascii").split()[2] != "Z":
        assert time.monotonic() - started < 200
        time.sleep(0.05)


def test_the_way_to_a_place_is_followed_to_who_can_change_it(theirs: Path, open_path: Path) -> None:
    assert foreign(str(open_path / "later" / "venv")) is None
    assert foreign(str(theirs / "a" / "b")) == str(theirs)
    (open_path / "link").symlink_to(theirs)
    assert foreign(str(open_path / "link" / "a")) == str(theirs)
    open_to_all = open_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert foreign(str(open_to_all / "a")) == str(open_to_all)
