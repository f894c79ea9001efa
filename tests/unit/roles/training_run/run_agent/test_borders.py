"""What the run's user can do to root's agent: nothing. As root, with the user nobody."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import signal
import socket
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._evidence import bounds
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import evidence_of
from object_server import Objects, serving
from ports import free_port
from run_agent import agent
from run_agent.act import (
    child,
    evidence,
    fence_file,
    hand,
    installed,
    preparation,
    processes,
    readiness,
    save_request,
    secrets,
    stacks,
    store,
    terminal,
)
from run_agent.act.cache_watch import CompileCache
from run_agent.decide import config, fence, gang_state, status
from run_agent.talk import keys, refusals, systemd
from run_agent.talk.clock import GangClock
from run_agent.talk.leader import Leader
from run_definition import USUAL

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the agent runs as root")

USER = "nobody"
UID = pwd.getpwnam(USER).pw_uid
PYTHON = "/usr/bin/python3"  # one that every user may run
# Says when it is ready, and its end when it gets a signal.
VICTIM = (
    "import signal,sys,time\n"
    "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make folders as root has them on a machine: the user may pass through."""
    with tempfile.TemporaryDirectory(prefix="borders") as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = folder / "opt"
        subprocess.run(["cp", "-rL", str(installed.FILES), str(program)], check=True)
        subprocess.run(["chmod", "-R", "a+rX", str(program)], check=True)
        monkeypatch.setattr(installed, "FILES", program)
        monkeypatch.setattr(installed.sys, "executable", PYTHON)
        for part in ("r/user", "l", "home"):
            (folder / part).mkdir(parents=True)
            os.chown(folder / part, UID, -1)
        yield folder


def made(place: Path, **more: Any) -> config.Config:
    paths = {
        "state": str(place / "s"), "runtime": str(place / "r"), "log": str(place / "l/run.log"),
        "queue": str(place / "q"), "root": str(place / "no-chips"),
    }  # fmt: skip
    public = {
        **USUAL, "run": "digits", "user": USER, "command": "true", "workdir": str(place / "home"),
        "hosts": ["10.0.0.1"], "worker": 0, "port": 1, "peer_port": 1, "coordinator_port": 2,
        "min_free_bytes": 1, "paths": paths, **more,
    }  # fmt: skip
    return config.parse(public, {})


def as_nobody(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
    words = ["setpriv", f"--reuid={UID}", "--clear-groups", *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, **more)


def until(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come true")


@pytest.fixture
def hands() -> Iterator[hand.Hand]:
    one = hand.Hand(USER)
    yield one
    one.close()


def test_root_starts_nothing_of_the_users_environment(place: Path, hands: hand.Hand) -> None:
    """A runuser in the run's venv, and the run's own PATH and LD_PRELOAD, are never root's."""
    venv, canary, told = place / "venv/bin", place / "canary", place / "home/told"
    venv.mkdir(parents=True)
    canary.mkdir(mode=0o777)
    canary.chmod(0o777)
    for name in ("runuser", "env", "python3", "bash", "sh", "setpriv"):
        (venv / name).write_text(f"#!/bin/sh\nid -u > {canary}/{name}.$(id -u)\nexec /bin/true\n")
        (venv / name).chmod(0o755)
    env = {"PATH": f"{venv}:/usr/bin:/bin", "SECRET": "kept-from-others"}
    run = made(
        place,
        venv=str(venv.parent),
        checkpoint_command=f"/usr/bin/env > {told}; /usr/bin/id -u >> {told}",
    )
    run = replace(run, env=env)
    seen: list[list[str]] = []
    real = subprocess.Popen

    def watched(words: Any, *more: Any, **named: Any) -> Any:
        seen.append([str(word) for word in words])
        assert "SECRET" not in named["env"]
        return real(words, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child.subprocess, "Popen", watched)
        assert save_request.ask(run, hands, "id", 1, []) == "checkpoint_command"
    text = until(
        lambda: told.exists() and told.read_text().endswith(f"{UID}\n") and told.read_text()
    )
    assert "SECRET=kept-from-others" in text
    assert all("kept-from-others" not in word for words in seen for word in words)
    assert not list(canary.glob("*.0"))


def test_whatever_pids_the_user_names_only_theirs_are_signalled_and_shown(
    place: Path, hands: hand.Hand
) -> None:
    run = made(place, checkpoint_signal="SIGUSR1")
    victim = subprocess.Popen([PYTHON, "-c", VICTIM], stdout=subprocess.PIPE)
    own = as_nobody([PYTHON, "-c", VICTIM])
    try:
        for one in (victim, own):
            assert one.stdout is not None
            assert one.stdout.readline() == b"ready\n"
        both = [victim.pid, own.pid]
        # Root's process is alive for nobody's record, and below no parent that is named.
        started = processes.start_time(victim.pid)
        assert processes.send(both, 0, UID) == [own.pid]
        assert list(stacks.said_by(run, hands, both)) == [own.pid]
        how = save_request.ask(run, hands, "id", 1, both)
        assert how == f"SIGUSR1 to {own.pid}"
        assert own.wait(60) == 9
        assert victim.poll() is None
        assert processes.start_time(victim.pid) == started
    finally:
        for one in (victim, own):
            one.kill()
            one.wait()


# Has the file of stacks open, and answers with what is no stack; or has put something in its place.
LIAR = """
import os, signal, sys, time
path, swap = sys.argv[1:]
stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
def lie(*_):
    os.write(stream, b"Current thread 0x1 (most recent call first):\\n")
    os.write(stream, b'  File "\\x1b[2J/etc/shadow", line 99999999999 in f\\n' * 60000)
    if swap:
        os.rename(path, path + ".old")
        os.mkfifo(path) if swap == "fifo" else os.symlink(swap, path)
signal.signal(59, lie)
os.kill(os.getpid(), 59) if swap else None
print("ready", flush=True)
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize("swap", ["", "fifo", "secret"])
def test_the_evidence_of_a_run_whose_user_lies(place: Path, hands: hand.Hand, swap: str) -> None:
    """What she writes is cut and shown; she leads root to no file, and holds nothing up."""
    run = made(place)
    (place / "secret").write_text(
        "Current thread 0x1 (most recent call first):\nkept-from-others\n"
    )
    (place / "secret").chmod(0o600)
    path = run.paths.stacks
    env = {"TPU_FLEET_RUN": "digits", "TPU_FLEET_WORKER": "0"}
    env["TPU_FLEET_PROGRESS"] = str(run.paths.user / "progress.json")
    swapped = str(place / "secret") if swap == "secret" else swap
    own = as_nobody([PYTHON, "-c", LIAR, str(path), swapped], env=env)
    try:
        assert own.stdout is not None
        assert own.stdout.readline() == b"ready\n"
        begun = time.monotonic()
        found = evidence.gather(run, hands)
        assert time.monotonic() - begun < 12
        told = evidence_of("w", json.loads(json.dumps(found.evidence)))
        assert [process.pid for process in told.processes] == [own.pid]
        assert "kept-from-others" not in json.dumps(found.evidence) + found.text
        frames = [one for thread in told.processes[0].threads for one in thread.python or ()]
        assert len(frames) <= bounds.FRAMES
        assert (place / "secret").stat().st_size < 100
    finally:
        own.kill()
        own.wait()


def test_a_compilation_cache_is_the_work_of_its_user(place: Path, hands: hand.Hand) -> None:
    """Root neither reads nor writes in its folder, and nothing of root's is sent from there."""
    secret, whole = place / "secret", zlib.compress(b"of root")
    secret.write_bytes(whole)
    secret.chmod(0o600)
    own, link, name = (f"jit_{word}-{'0f' * 32}-cache" for word in ("own", "link", "name"))
    port = free_port()
    with serving(Objects()) as lab:
        run = made(
            place, hosts=["127.0.0.1", "127.0.0.2"], peer_port=3, port=port, archive="gs://lab/all",
            storage=lab.url, compile_cache_bytes=10**6,
        )  # fmt: skip
        run = replace(run, paths=replace(run.paths, cache=place / "cache"))
        folder = terminal.give_cache_folder(run)
        assert folder is not None
        found = folder.stat()
        assert (found.st_uid, found.st_mode & 0o777) == (UID, 0o700)
        assert folder.parent.stat().st_uid == 0
        (folder / own).write_bytes(whole)
        os.chown(folder / own, UID, -1)
        (folder / link).symlink_to(secret)
        os.link(secret, folder / name)
        cache = CompileCache(run, hands, lambda: "ab" * 32)
        cache.look(100.0, idle=False)
        until(lambda: not cache._take_in() and not cache._helper.is_busy)
        assert [one.rpartition("/")[2] for one in lab.items] == [own]
        assert secret.read_bytes() == whole
        until(lambda: processes.with_argument("cache-serve", UID))
        cache.close()
        until(lambda: not processes.with_argument("cache-serve", UID))


def test_an_agent_takes_no_parent_that_is_not_the_users(place: Path) -> None:
    memory = status.Memory(attempt=1, program="running", boot_id="b")
    me = os.getpid()
    record = {"attempt": 1, "pid": 5, "parent": me, "parent_started": processes.start_time(me)}

    def started(pid: int) -> int | None:
        return processes.start_time(pid) if processes.belongs_to(pid, UID) else None

    assert not status.look(memory, record, None, "b", started, 99.0).alive


def test_a_marked_process_of_another_user_neither_blocks_nor_is_killed(
    place: Path, hands: hand.Hand
) -> None:
    run = made(place)
    cache = CompileCache(run, hands, lambda: "")
    ready = readiness.Readiness(run, secrets.Keeper(run), None, "b", hands, cache)
    marks = {
        "TPU_FLEET_RUN": "digits",
        "TPU_FLEET_WORKER": "0",
        "TPU_FLEET_PROGRESS": str(run.paths.user / "progress.json"),
    }
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, **marks})
    own = as_nobody(["sleep", "600"], env={**os.environ, **marks})
    try:
        until(lambda: processes.belongs_to(own.pid, UID) and own.pid in readiness.marked(run))
        assert readiness.marked(run) == {own.pid}
        assert ready._expensive(False) == "an earlier attempt is being ended"
        assert own.wait(60) == -signal.SIGKILL
        assert ready._expensive(False) != "an earlier attempt is being ended"
        assert other.poll() is None
    finally:
        for one in (other, own):
            one.kill()
            one.wait()


@pytest.mark.parametrize(
    "kind", ["link to a file", "dangling link", "pipe", "hard link", "folder", "device", "socket"]
)
def test_the_users_folder_leads_root_nowhere(place: Path, hands: hand.Hand, kind: str) -> None:
    """Whatever lies where the agent's files are, root's things stay as they were."""
    secret = place / "shadow"
    secret.write_text('{"attempt": 1, "exit_code": 0, "error": "root"}\n')
    secret.chmod(0o600)
    begun = time.monotonic()
    for folder, name in (("r/user", "program.json"), ("r/user", "log.json"), ("l", "events.jsonl")):
        path = place / folder / name
        if kind == "link to a file":
            path.symlink_to(secret)
        elif kind == "dangling link":
            path.symlink_to(place / "not-there")
        elif kind == "pipe":
            os.mkfifo(path, 0o666)
        elif kind == "hard link":
            os.link(secret, path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            with socket.socket(socket.AF_UNIX) as made_one:
                made_one.bind(str(path))
    glance = hands.glance(place / "r/user", place / "l/run.log")
    assert (glance.program, glance.log_error, glance.dropped_bytes) == (None, "", 0)
    with contextlib.suppress(OSError):  # a folder is put aside
        hands.append(place / "l/events.jsonl", b"{}\n", 1000, 2)
    assert secret.read_text() == '{"attempt": 1, "exit_code": 0, "error": "root"}\n'
    assert not (place / "not-there").exists()
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000, "{", '{"attempt": 1e999, "end": 1e999}', '"x"', "[1]", "\udc80",
        '{"dropped_bytes": "x", "error": ["a\\nMAINPID=1"]}', '{"dropped_bytes": 1e400}',
        '{"attempt": 1, "exit_code": 99999999999999999999, "signal": -4, "end": "x"}',
        '{"parent": -1, "pid": 1e9, "attempt": 1, "parent_started": []}',
    ],
)  # fmt: skip
def test_odd_files_of_the_user_end_no_agent(place: Path, hands: hand.Hand, text: str) -> None:
    for name in ("program.json", "result.json", "log.json", "checkpoints.json", "progress.json"):
        (place / "r/user" / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    glance = hands.glance(place / "r/user", place / "l/run.log")
    memory = status.Memory(attempt=1, program="running", boot_id="b")
    seen = status.look(memory, glance.program, glance.result, "b", processes.start_time, 1.0)
    for number in (seen.memory.exit_code, seen.memory.signal, seen.memory.pid, seen.memory.parent):
        assert number is None or abs(number) < 2**31
    assert json.loads(json.dumps(glance.dropped_bytes, allow_nan=False)) >= 0
    assert "\n" not in glance.log_error


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_hand_that_is_stopped_or_killed_holds_nobody_for_long(
    place: Path, hands: hand.Hand, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setattr(hand, "_PAUSE", 0.0)
    hands.glance(place / "r/user", place / "l/run.log")
    assert hands._process is not None
    pid = hands._process.pid

    monkeypatch.setattr(hand, "_SECONDS", 1.0)
    os.killpg(pid, how)
    begun = time.monotonic()
    with pytest.raises(hand.CannotReach):
        hands.glance(place / "r/user", place / "l/run.log")
    assert time.monotonic() - begun < 20
    monkeypatch.setattr(hand, "_SECONDS", 60.0)
    assert hands.glance(place / "r/user", place / "l/run.log").program is None


@pytest.mark.parametrize(
    "said",
    [b"1 2 3", b"1", b"-1 5", b"x y", b"1 2x", b"99999999999 3", b"", b"1\n\xff"],
)
def test_tmux_says_two_numbers_or_nothing(said: bytes) -> None:
    assert terminal.pids_in(said) == []


def test_only_the_users_own_processes_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []
    monkeypatch.setattr(
        terminal.Path, "write_text", lambda _self, text, **_more: moved.append(text) or 1
    )
    terminal._take_into_our_group(1, UID)
    terminal._take_into_our_group(os.getpid(), UID)
    assert moved == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\x85", "\u2028", "\0"])
def test_systemd_is_told_one_line(place: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """What the fence's file says, which is the user's, becomes no other assignment."""
    where = f"x{end}MAINPID=1{end}WATCHDOG_USEC=1{end}" + "y" * 9999
    run = made(place, checkpoint_dir=str(place / "home"))
    ready = preparation.Preparation(run, hand.Hand(USER))
    ready._found = {"mark": {"attempt": 7, "owner": "mallory", "where": where}, "alone": True}
    reason = ready._judge(gang_state.Gang("d", "r", claimed=True))
    address = place / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(address))
        monkeypatch.setenv("NOTIFY_SOCKET", str(address))
        systemd.tell(f"failed, attempt 1. {reason}{end}MAINPID=1")
        said = heard.recv(65536)
    assert said.startswith(b"STATUS=failed, attempt 1. fenced by attempt 7 on x")
    assert len(said) < 1000
    assert not any(separator in said for separator in (b"\n", b"\r", b"\0"))


@pytest.mark.parametrize(
    "data",
    [
        {"attempt": 10**30, "owner": "x"}, {"attempt": -1, "owner": "x"},
        {"attempt": 1, "owner": "x\ny"}, {"attempt": 1, "owner": "x" * 999},
    ],
)  # fmt: skip
def test_an_odd_mark_says_nothing(data: dict[str, Any]) -> None:
    assert fence.Mark.from_json(data) is None
    found = fence.Mark.from_json(
        {"attempt": 1, "owner": "x", "run_id": "a\nB=1", "where": ["\x1b"]}
    )
    assert found is not None
    assert (found.run_id, "\x1b" in found.where) == ("", False)


def test_root_makes_no_folder_below_one_of_the_users(place: Path) -> None:
    theirs = place / "l"
    (theirs / "b").symlink_to(place / "r")
    terminal._give(theirs / "b" / "new", USER)
    terminal._give(theirs / "new", USER)
    assert not (place / "r/new").exists()
    assert not (theirs / "new").exists()


def modes(folder: Path) -> tuple[int, int, int]:
    found = folder.stat()
    return found.st_uid, found.st_gid, found.st_mode & 0o777


@pytest.mark.parametrize("user", [USER, "root"])
def test_nobody_else_reads_the_folders_of_a_run(place: Path, user: str) -> None:
    owner, adm = pwd.getpwnam(user), grp.getgrnam("adm").gr_gid
    logs, saved = place / "logs" / "run", place / "saved" / "run"
    terminal._give(logs, user, readers="adm")
    terminal._give(saved, user)
    assert modes(logs) == (owner.pw_uid, adm, 0o750)
    assert modes(saved) == (owner.pw_uid, owner.pw_gid, 0o700)
    assert modes(logs.parent)[2] == 0o755
    # Folders that an earlier version made.
    for folder in (logs, saved):
        folder.chmod(0o755)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        terminal._give(folder, user, readers="adm" if folder == logs else "")
    assert modes(logs) == (owner.pw_uid, adm, 0o750)
    assert modes(saved) == (owner.pw_uid, owner.pw_gid, 0o700)
    # What its user has closed stays closed; a machine without that group has no readers.
    logs.chmod(0o700)
    terminal._give(logs, user, readers="adm")
    assert modes(logs)[2] == 0o700
    logs.chmod(0o755)
    terminal._give(logs, user, readers="no-such-group")
    assert modes(logs)[2] == 0o700


def test_a_folder_of_another_user_is_not_changed(place: Path) -> None:
    folder = place / "theirs"
    folder.mkdir(mode=0o755)
    for other in (folder, place / "link"):
        if other != folder:
            other.symlink_to(folder)
        terminal._give(other, USER, readers="adm")
    assert modes(folder) == (0, os.getegid(), 0o755)


def test_all_python_of_root_is_isolated() -> None:
    role = Path(__file__).resolve().parents[5] / "roles/training_run"
    for path in [*role.glob("templates/*"), *role.glob("files/**/*.py")]:
        for line in path.read_text().splitlines():
            if "/usr/bin/python3 " in line:
                assert "/usr/bin/python3 -I " in line, (path, line)
            if "[sys.executable," in line:
                assert '[sys.executable, "-I",' in line, (path, line)


def test_what_an_attempts_number_depends_on_is_on_the_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def watched(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", watched)
    for write in (
        lambda: store.write(tmp_path / "a/gang.json", {"attempt": 1}),
        lambda: fence_file.write(tmp_path / "a/mark", fence.Mark(1, "x")),
    ):
        synced.clear()
        write()
        # The folder after the file: its name is there, too.
        assert synced[-1] == (tmp_path / "a").stat().st_ino
        assert len(synced) == 2


def test_the_gangs_clock_is_set_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures stay as old as they are when the clock jumps, and when the machine reboots."""
    run = made(tmp_path, hosts=["10.0.0.1"])
    leader = Leader(run, "boot one")
    now = leader._clock.now()
    leader.gang = gang_state.Gang(run.definition, "id", failures=[now], not_before=now + 5)
    leader._save()
    monkeypatch.setattr(time, "time", lambda: 1.0)
    same = Leader(run, "boot one")
    assert 0 <= same._clock.now() - now < 60
    assert same.gang.failures == [now]
    rebooted = Leader(run, "boot two")
    assert 0 <= rebooted._clock.now() - now < 60
    assert rebooted.gang.failures == [now]
    # Times by a clock that could be set are not taken over.
    kept = json.loads((tmp_path / "s/gang.json").read_text())
    for name in ("clock", "clock_ahead", "clock_boot"):
        del kept[name]
    store.write(tmp_path / "s/gang.json", kept)
    assert Leader(run, "boot one").gang.failures == []
    assert not GangClock({}, "b").known


def test_failures_on_other_slices_count_here(tmp_path: Path) -> None:
    """Also where a slice had the run before; they fall out of the window like its own."""
    run = made(tmp_path, hosts=["10.0.0.1"], failures_before=2)
    leader = Leader(run, "boot one")
    assert (leader.failures(), len(leader.gang.failures)) == (2, 2)
    leader.gang = replace(leader.gang, failures=[*leader.gang.failures, leader._clock.now()])
    leader._save()
    # After a restart they are counted once.
    assert Leader(run, "boot one").failures() == 3
    again = replace(run, definition="another claim", failures_before=1)
    assert Leader(again, "boot one").failures() == 1
    leader.gang = replace(leader.gang, failures=[leader._clock.now() - 1e6])
    assert leader.failures() == 0


def test_the_last_words_are_those_of_a_program_that_ended_the_run(tmp_path: Path) -> None:
    leader = Leader(made(tmp_path, hosts=["10.0.0.1"]), "boot one")
    tail = ["Traceback", "OSError: no file", " ", "--- tpu-fleet 2026 attempt 1 ended with 1"]
    leader.gang = replace(leader.gang, phase="failed", tail=tail)
    assert leader.last_words() == "OSError: no file"
    leader.gang = replace(leader.gang, phase="gathering")
    assert leader.last_words() == ""


def test_a_file_of_roots_in_the_users_folder_is_put_aside(place: Path, hands: hand.Hand) -> None:
    """An agent that wrote as root leaves files that the user can rename and not write."""
    for name in ("events.jsonl", "hang-1.txt"):
        (place / "l" / name).write_text('{"event": "old"}\n')
        (place / "l" / name).chmod(0o644)
    hands.append(place / "l/events.jsonl", b'{"event": "new"}\n', 1000, 2)
    hands.append(place / "l/events.jsonl", b'{"event": "newer"}\n', 1000, 2)
    assert (place / "l/events.jsonl").read_text() == '{"event": "new"}\n{"event": "newer"}\n'
    assert (place / "l/events.jsonl.1").read_text() == '{"event": "old"}\n'
    hands.create(place / "l/hang-1.txt", b"stacks")
    assert (place / "l/hang-1.txt").read_text() == "stacks"
    hands.keep_newest(place / "l", "events.jsonl.*", 1)
    hands.remove(place / "l/events.jsonl.1")
    assert sorted(path.name for path in (place / "l").iterdir()) == ["events.jsonl", "hang-1.txt"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_agent_listens_anew_when_nobody_listens(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ended the thread, the port is free and the gang is reached again."""
    hosts = ["127.0.0.2", "127.0.0.3"]
    port = free_port(hosts[0])
    run = made(place, hosts=hosts, peer_port=port)
    one = agent.Agent.__new__(agent.Agent)
    one.config, one.leader, one.refusals = run, Leader(run), refusals.Refusals()
    one.keys = keys.Keys("ab" * 32, place / "key.json")
    one.server = None
    one._serve()
    first = one.server
    one._serve()
    assert first is not None
    assert one.server is first

    def fail(_address: str, _port: int) -> None:
        raise SystemExit

    monkeypatch.setattr(first, "_admit", fail)
    # The port is closed at once, which may reset what is only being connected.
    with contextlib.suppress(ConnectionResetError):
        socket.create_connection((hosts[0], port), 30).close()
    until(lambda: not first._thread.is_alive())
    one._serve()
    assert one.server is not first
    assert one.server is not None
    assert one.server._thread.is_alive()
    one.server.close()


def test_py_spy_is_roots_where_the_host_has_one(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the venv's owner runs as the user, and Ubuntu lets that see nothing."""
    theirs, roots = place / "home/bin/py-spy", place / "bin/py-spy"
    for path in (theirs, roots):
        path.parent.mkdir()
        path.write_bytes(b"\x7fELF")
    os.chown(theirs, UID, -1)
    run = made(place, venv=str(place / "home"))
    real = os.path.realpath
    monkeypatch.setattr(
        stacks.os.path,
        "realpath",
        lambda path: str(roots.parent) if path == "/usr/local/bin" else real(path),
    )
    monkeypatch.setattr(terminal, "only_roots", lambda path: path == roots)
    assert stacks.py_spy(run) == [str(roots)]
    roots.unlink()
    found = stacks.py_spy(run)
    assert found is not None
    assert found[0] == "/usr/sbin/runuser"
    assert found[-1] == str(theirs)
