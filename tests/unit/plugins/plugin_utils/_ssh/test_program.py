"""A program of the fleet goes to a worker once for each version."""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh import program

DAY = 86400.0


def packed(says: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("speaker.py", f"def say(line): print({says!r}, line)\n")
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "apply").mkdir()
    monkeypatch.setattr(program, "FOLDER", str(tmp_path / "apply"))
    return tmp_path / "apply"


def call(kind: str, archive: bytes, *inputs: bytes) -> bytes:
    start = "import speaker\nspeaker.say(line.decode().strip())\n"
    words = shlex.split(program.command(kind, archive, start, become=False))
    return subprocess.run(
        [sys.executable, *words[1:]], input=b"".join(inputs), capture_output=True, check=True
    ).stdout


def path_of(folder: Path, kind: str, archive: bytes) -> Path:
    return folder / f"{kind}-{hashlib.sha256(archive).hexdigest()}"


def test_it_is_asked_for_once(folder: Path) -> None:
    one = packed("one")
    asked = call("agent", one, b"hello\n", program.sent(one))
    assert asked == b'{"say": "program"}\none hello\n'
    assert call("agent", one, b"again\n") == b"one again\n"
    assert call("sync", one, b"hello\n", program.sent(one)) == asked
    assert len(list(folder.iterdir())) == 2


def test_where_it_cannot_be_kept_its_last_word_says_why(folder: Path) -> None:
    """As on a full disk; a traceback was shown, or that the worker ended without a result."""
    archive = packed("one")
    words = shlex.split(program.command("sync", archive, "", become=False))
    limited = ["sh", "-c", 'ulimit -f 0; exec "$0" "$@"', sys.executable, *words[1:]]
    done = subprocess.run(
        limited, input=b"hello\n" + program.sent(archive), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b'{"say": "program"}\n')
    assert done.stderr.decode() == f"{folder}: File too large.\n"
    assert list(folder.iterdir()) == []


def test_a_version_that_was_not_used_for_a_day_goes_when_another_comes(folder: Path) -> None:
    versions = [packed(name) for name in ("unused", "used", "new")]
    for archive in versions[:2]:
        call("agent", archive, b"1\n", program.sent(archive))
    call("sync", versions[0], b"1\n", program.sent(versions[0]))
    for path in folder.iterdir():
        os.utime(path, (time.time() - 2 * DAY,) * 2)
    call("agent", versions[1], b"2\n")
    call("agent", versions[2], b"1\n", program.sent(versions[2]))
    assert set(folder.iterdir()) == {
        path_of(folder, "agent", versions[1]),
        path_of(folder, "agent", versions[2]),
        path_of(folder, "sync", versions[0]),
    }


def test_what_another_call_renames_or_removes_meanwhile_is_passed_over(folder: Path) -> None:
    (folder / "agent-gone").symlink_to(folder / "nowhere")
    one = packed("one")
    assert call("agent", one, b"hello\n", program.sent(one)).endswith(b"one hello\n")


def test_the_command_becomes_root_if_it_must(folder: Path) -> None:
    assert program.command("agent", b"", "", become=True).startswith("sudo -n /usr/bin/python3 -I")
    assert program.command("agent", b"", "", become=False).startswith("/usr/bin/python3 -I -S")
