"""The short look: it answers alike only while nothing at all has changed."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import glance, named, stamp
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.place import Place
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.stamp import (
    Seen,
    Watch,
    keep_glance,
    look,
)
from run_agent.act import store

AGENT = "/opt/tpu-fleet/apply/agent-1"
ASKS = "ab" * 32
REQUEST = f'{{"asks": "{ASKS}", "protocol": 1}}\n'.encode()
ANSWER = b'{"say": "result", "status": "ok"}\n'


class Machine:
    """A machine with a user, whose last look was an hour ago."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        nobody = pwd.getpwnam("nobody")
        self.folder, self.kept = folder, folder / "glance"
        self.status = folder / "status.json"
        self.runs(state="running", reason="", step=1)
        self.home, self.build = folder / "home", folder / "build"
        for made in ("etc/sub", "home/.ssh", "records", "build/lib/python3.11/site-packages"):
            (folder / made).mkdir(parents=True)
        (folder / "etc/sub/deep").write_text("two\n")
        (folder / "etc/link").symlink_to("sub")
        (folder / "home/.ssh/authorized_keys").write_text("key\n")
        for path in (self.home, *self.home.rglob("*"), self.build, *self.build.rglob("*")):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        record = f'{{"owner": "nobody", "build": "{self.build}"}}'
        (folder / "records/venv.json").write_text(record)
        (folder / "own").write_text("{}")
        about = (nobody.pw_name, "x", nobody.pw_uid, nobody.pw_gid, "", str(self.home), "/bin/sh")
        account = pwd.struct_passwd(about)
        root = pwd.getpwnam("root")
        accounts = {"nobody": account, "root": root}
        monkeypatch.setattr(named, "people", lambda: [account])
        monkeypatch.setattr(stamp, "account_of", accounts.get)
        monkeypatch.setattr(glance, "_FRESH", 0)
        self.units = {"ssh.service": "loaded active"}
        self.mounts = {"/": "/dev/sda1 ext4 rw"}
        monkeypatch.setattr(glance, "units", lambda _patterns: dict(self.units))
        monkeypatch.setattr(glance, "mounts", lambda: dict(self.mounts))
        self.look()

    def look(
        self, started_ns: int | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        watch = Watch(
            trees=(str(self.folder / "etc"),),
            closed=(),
            files=(),
            records=(),
            environments=(str(self.folder / "records/*.json"),),
            dotfiles=str(self.folder / "dotfiles"),
        )
        seen = Seen(started_ns or time.time_ns() + 1_000_000_000)
        look(watch, None, seen)
        seen.runs = {str(self.status): glance.run_words(str(self.status))}
        meanwhile()
        keep_glance(seen, self.kept, [self.folder / "own"], AGENT, ASKS, ANSWER)

    def runs(self, **status: Any) -> None:
        """Write the status of a run, as its agent does."""
        store.write(self.status, {"boot_id": "this", "peers": [{"state": "odd"}], **status})

    def answer(self, agent: str = AGENT, request: bytes = REQUEST) -> bytes:
        return glance.answer(agent, request, str(self.kept))


@pytest.fixture
def machine(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(open_path, monkeypatch)


def test_the_same_is_answered_alike(machine: Machine) -> None:
    assert machine.answer() == ANSWER
    assert machine.kept.stat().st_mode & 0o777 == 0o600


def test_a_run_that_goes_on_changes_nothing(machine: Machine) -> None:
    machine.runs(state="running", reason="", step=2, what='x\n  "state": "failed",', serial=9)
    assert machine.answer() == ANSWER


def test_the_state_is_found_in_the_status_of_a_thousand_workers(machine: Machine) -> None:
    peers = [{"worker": number, "state": "running", "reason": "x" * 100} for number in range(1000)]
    machine.runs(state="running", reason="all", peers=peers)
    assert machine.status.stat().st_size > 1 << 17
    words = glance.run_words(str(machine.status)).decode().split("\n")
    assert words == ['  "boot_id": "this",', '  "reason": "all",', '  "state": "running"']


@pytest.mark.parametrize(
    "change",
    [
        lambda m: (m.folder / "etc/sub/deep").write_text("other\n"),
        lambda m: os.utime(m.folder / "etc/sub/deep"),
        lambda m: (m.folder / "etc/sub/deep").chmod(0o600),
        lambda m: (m.folder / "etc/sub/more").touch(),
        lambda m: (m.folder / "etc/sub/deep").unlink(),
        lambda m: (m.home / ".ssh/authorized_keys").write_text("other\n"),
        lambda m: (m.home / ".ssh/more").touch(),
        lambda m: (m.home / ".netrc").touch(),
        lambda m: (m.build / "lib/python3.11/site-packages/x.dist-info").mkdir(),
        lambda m: (m.build / "lib/python3.12").mkdir(),
        lambda m: (m.folder / "records/other.json").touch(),
        lambda m: (m.folder / "dotfiles").mkdir() or (m.folder / "dotfiles/nobody.json").touch(),
        lambda m: (m.folder / "own").write_text("[]"),
        lambda m: m.units.update({"ssh.service": "loaded failed"}),
        lambda m: m.mounts.update({"/data": "/dev/sdb ext4 rw"}),
        lambda m: m.runs(state="failed", reason="", step=1),
        lambda m: m.runs(state="running", reason="exit code 1", step=1),
        lambda m: m.runs(state="running", reason="", step=1, boot_id="other"),
        lambda m: m.status.unlink(),
        lambda m: m.kept.write_bytes(m.kept.read_bytes()[:-9]),
        lambda m: m.kept.write_bytes(b""),
        lambda m: m.kept.unlink(),
    ],
)
def test_whatever_changes_is_left_to_the_whole_look(
    machine: Machine, change: Callable[[Machine], object]
) -> None:
    change(machine)
    assert machine.answer() == b""


def test_another_question_is_another_answer(machine: Machine) -> None:
    assert machine.answer(request=REQUEST.replace(b"ab", b"cd")) == b""
    assert machine.answer(request=b'{"protocol": 1, "asks": 5}') == b""
    assert machine.answer(agent=AGENT + "0") == b""


def test_after_a_boot_it_is_looked_at_as_a_whole(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glance, "text_of", lambda _path: "another boot")
    assert machine.answer() == b""


def test_what_may_have_changed_after_the_look_is_not_kept(machine: Machine) -> None:
    machine.kept.unlink()
    machine.look(started_ns=(machine.folder / "etc").stat().st_ctime_ns - 1)
    assert not machine.kept.exists()


@pytest.mark.parametrize("name", ["home/.netrc", "etc/link"])
def test_what_went_after_the_look_is_not_kept_as_absent(machine: Machine, name: str) -> None:
    path = machine.folder / name
    path.exists() or path.touch()
    machine.kept.unlink()
    machine.look(meanwhile=path.unlink)
    assert not machine.kept.exists()
    machine.look()
    assert machine.answer() == ANSWER


def test_the_place_has_the_same_file() -> None:
    assert str(Place().glance) == glance.KEPT


def test_what_could_not_be_looked_at_is_not_kept(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.kept.unlink()
    monkeypatch.setattr(stamp, "_MOST_ENTRIES", 0)
    monkeypatch.setattr(stamp._walk, "__defaults__", (0,))
    machine.look()
    assert not machine.kept.exists()


def test_a_home_is_looked_at_with_the_rights_of_its_user(machine: Machine) -> None:
    """What only root can see behind a link of the user looks as if it were not there."""
    secret = machine.folder / "secret"
    secret.mkdir(mode=0o700)
    (secret / "pip").mkdir()
    (machine.home / ".config").symlink_to(secret)
    machine.look()
    assert machine.answer() == ANSWER
    (secret / "pip" / "more").touch()
    (secret / "pip").chmod(0o777)
    assert machine.answer() == ANSWER


def test_it_imports_nothing_that_takes_long() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); import glance;"
        "print(*sorted(set(sys.modules) - before))"
    )
    folder = str(Path(glance.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, folder], capture_output=True, text=True, check=True
    )
    allowed = {"__future__", "_collections_abc", "abc", "_abc", "genericpath", "glance", "os"}
    allowed |= {"os.path", "posixpath", "select", "stat", "_stat", "typing"}
    assert set(done.stdout.split()) <= allowed
