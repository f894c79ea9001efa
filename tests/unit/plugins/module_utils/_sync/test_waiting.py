"""A process that has a program in memory works for each caller, with the caller's streams."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._sync.waiting import begin
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh import program
from waiting import wait_until

PROGRAM = b"any"


# A program, which gets the exit code as its first line.
SERVER = """
import os, sys
sys.path[:0] = sys.argv[3:]
from pathlib import Path
from ansible_collections.tpu.fleet.plugins.module_utils._sync.waiting import Waiting

def work(line):
    print(os.getpid(), line.decode().strip(), sys.stdin.buffer.read().decode())
    print("to errors", file=sys.stderr, flush=True)
    return int(line)

place = Path(sys.argv[1])
Waiting(place, work, lambda: place.with_suffix(".used").touch()).serve(float(sys.argv[2]))
"""


def serving(place: Path, idle: float) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, place, str(idle), *sys.path])
    wait_until(lambda: place.exists() or process.poll() is not None, "it listens")
    return process


def command(folder: Path) -> list[str]:
    """Return how a worker's program is called; with no process that waits it exits with 77."""
    words = shlex.split(program.command("sync", PROGRAM, "sys.exit(77)", False, str(folder)))
    return [sys.executable, *words[1:]]


def called(folder: Path, given: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(folder), input=given, capture_output=True, check=False, timeout=20
    )


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # The path of a socket has at most 107 bytes, and pytest's folders are deep.
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(program, "FOLDER", f"{folder}/apply")
        path = Path(shlex.split(program.command("sync", PROGRAM, "", become=False))[-1])
        path.mkdir(parents=True)
        yield Path(folder, "w", path.name)


def test_each_caller_has_a_process_of_its_own(place: Path) -> None:
    process = serving(place, 60.0)
    try:
        first, second = (called(place.parent, b"%d\nmore" % code) for code in (0, 3))
    finally:
        process.kill()
        process.wait()
    assert (first.returncode, second.returncode) == (0, 3)
    assert first.stderr == b"to errors\n"
    assert [done.stdout.split()[1:] for done in (first, second)] == [
        [b"0", b"more"],
        [b"3", b"more"],
    ]
    assert len({first.stdout.split()[0], second.stdout.split()[0], b"%d" % process.pid}) == 3
    assert place.with_suffix(".used").exists()
    assert place.parent.stat().st_mode & 0o777 == 0o700


def test_it_ends_when_none_came_for_long_and_the_call_does_the_work_itself(place: Path) -> None:
    process = serving(place, 0.2)
    process.wait(20)
    assert (process.returncode, place.exists()) == (0, False)
    assert called(place.parent, b"0\n").returncode == 77


def test_a_call_does_the_work_itself_where_the_process_takes_it_not(place: Path) -> None:
    place.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(place))
    assert called(place.parent, b"0\n").returncode == 77
    place.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ending:
        ending.bind(str(place))
        ending.listen(1)
        words = shlex.split(
            program.command("sync", PROGRAM, "sys.exit(77)", False, str(place.parent))
        )
        caller = subprocess.Popen([sys.executable, *words[1:]], stdin=subprocess.DEVNULL)
        ending.accept()[0].close()
    caller.communicate(b"0\n", timeout=20)
    assert caller.returncode == 77


def test_it_takes_no_caller_without_streams(place: Path) -> None:
    process = serving(place, 60.0)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.connect(str(place))
            caller.sendall(b"+")
            assert caller.recv(1) == b""
        assert called(place.parent, b"0\n").returncode == 0
    finally:
        process.kill()
        process.wait()


def test_it_keeps_no_stream_of_a_caller_that_it_does_not_take(place: Path) -> None:
    """Otherwise the caller's connection would not end before this process does."""
    place.parent.mkdir()
    process = serving(place, 60.0)
    try:
        # What is noted for each caller cannot be written.
        place.with_suffix(".used").symlink_to("/nowhere/at/all")
        assert called(place.parent, b"0\n").returncode == 77
        kept = [path.readlink() for path in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert not [path for path in kept if str(path).startswith("pipe:")]
    finally:
        process.kill()
        process.wait()


def test_systemd_starts_it_under_the_name_of_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "systemd-run"
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    begin("/opt/tpu-fleet/apply/sync-0123456789abcdef99")
    wait_until((tmp_path / "words").exists, "it was asked")
    monkeypatch.setenv("PATH", "/nowhere")
    begin("/opt/tpu-fleet/apply/sync-0123456789abcdef99")
    words = (tmp_path / "words").read_text().splitlines()
    assert "--unit=tpu-fleet-sync-0123456789abcdef" in words
    assert words[-2:] == ["/opt/tpu-fleet/apply/sync-0123456789abcdef99", "sync-0123456789abcdef99"]
