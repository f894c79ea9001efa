"""What a worker sends of a log: every byte once, whatever rotates, is cut or is recreated."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_agent.act.logs import LogFile

from tpu_fleet import on_worker
from tpu_fleet.on_worker import log_files, log_places, run_reader, runs
from tpu_fleet.on_worker.runs import RunFiles
from tpu_fleet.workers.ask.worker_program import modules, program, reader_command

Pieces = list[tuple[dict[str, Any], bytes]]


class Following:
    """A log that a writer writes, and a reader of it that may lose the line."""

    def __init__(
        self, folder: Path, limit: int = 40, keep: int = 3, most: int = runs.LOG_LEAST
    ) -> None:
        self.most = most
        self.path = folder / "run.log"
        self.writer = LogFile(str(self.path), limit, keep)
        self.count = 0
        self.at: list[Any] = ["", 0, 0]
        self.read = b""
        self.lost: list[str] = []
        self.reader: run_reader.Reader | None = None

    def write(self, lines: int = 1) -> None:
        """Let the writer write; it rotates when a file is full."""
        for _line in range(lines):
            self.writer.write(b"line %04d\n" % self.count)  # four of them fill a file
            self.count += 1

    def look(self) -> None:
        """Take what there is."""
        pieces: Pieces = []
        send, run_reader.send = (
            run_reader.send,
            lambda piece, data=b"": pieces.append((piece, data)),
        )
        try:
            if self.reader is None:
                reader = run_reader.Reader(self.path, self.most)
                if reader.begin({"at": self.at}):
                    self.reader = reader
            if self.reader is not None:
                self.reader.send_all()
        finally:
            run_reader.send = send
        for piece, data in pieces:
            self.read += data
            self.at = piece.get("at", self.at)
            self.lost += [piece["lost"]] if "lost" in piece else []

    def cut(self) -> None:
        """Lose the line: the last message is all that is known."""
        if self.reader is not None and self.reader.file is not None:
            os.close(self.reader.file.descriptor)
        self.reader = None

    def restart(self) -> None:
        """Let another writer go on, as after a reboot."""
        self.cut()
        self.writer.close()
        self.writer = LogFile(str(self.path), self.writer.limit, self.writer.keep)

    @property
    def lines(self) -> list[int]:
        """The numbers of the lines that were read."""
        return [int(line.split()[1]) for line in self.read.splitlines()]


STORIES: dict[str, str] = {
    # w: a line, W: a file full of them, l: look, c: the line is cut, r: reboot
    "it is read while it is written": "wlwlwlwlwlwlwlwlwl",
    "nothing happens between two looks": "wwlllwl",
    "there is no log yet": "lllwlcl",
    "cut and back": "wwlcwwl",
    "cut twice": "wlcclwl",
    "it rotates while we read": "wlWlwlWl",
    "it rotates twice between two looks": "wlWWwl",
    "cut exactly where a file ends": "wwwwlcwwl",
    "a file is full, and nothing is in the next": "Wlcwl",
    "it rotates while cut": "wwlcWwl",
    "it rotates twice while cut": "wwlcWWwl",
    "it reboots": "wwlrwwl",
    "it reboots, and rotates": "wwlrWWwl",
    "cut again before anything came": "wwlcWlclcWl",
}


@pytest.mark.parametrize("story", STORIES)
def test_every_line_once(tmp_path: Path, story: str) -> None:
    log = Following(tmp_path)
    steps: dict[str, Callable[[], None]] = {
        "w": log.write,
        "W": lambda: log.write(4),
        "l": log.look,
        "c": log.cut,
        "r": log.restart,
    }
    for step in STORIES[story]:
        steps[step]()
    assert log.lines == list(range(log.count))
    assert log.lost == []


@settings(max_examples=60)
@given(st.lists(st.sampled_from("wwwwllcr"), max_size=60))
def test_every_line_once_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """As long as nothing is dropped before it was read."""
    log = Following(tmp_path_factory.mktemp("log"), keep=20)
    for step in [*steps, "l"]:
        {"w": log.write, "l": log.look, "c": log.cut, "r": log.restart}[step]()
    assert log.lines == list(range(log.count))
    assert log.lost == []


def test_what_was_dropped_while_cut_is_said_and_nothing_comes_twice(tmp_path: Path) -> None:
    log = Following(tmp_path)
    log.write(2)
    log.look()
    log.cut()
    log.write(100)
    log.look()
    assert len(log.lost) == 1
    assert "rotated away" in log.lost[0]
    assert log.lines == [0, 1, *range(log.lines[2], log.count)]


def test_an_inode_that_another_file_gets_is_not_the_same_file(tmp_path: Path) -> None:
    """File systems do give the number of a file that was deleted to the next one."""
    path = tmp_path / "run.log"
    names, inodes = set(), set()
    for _ in range(50):
        path.write_bytes(b"text\n")
        one = log_files.opened(path)
        assert one is not None
        names.add(one.name)
        inodes.add(os.fstat(one.descriptor).st_ino)
        os.close(one.descriptor)
        path.unlink()
        time.sleep(0.01)
    assert len(names) == 50
    assert len(inodes) < 50


def test_a_log_that_somebody_empties_begins_anew(tmp_path: Path) -> None:
    log = Following(tmp_path, limit=1000)
    log.write(3)
    log.look()
    log.writer.close()
    log.path.write_bytes(b"")
    log.write(1)
    log.look()
    assert log.lines == [0, 1, 2, 3]
    assert log.lost == ["the log was emptied"]


@pytest.mark.parametrize("kind", ["link", "loop", "pipe", "folder"])
@pytest.mark.parametrize("read_before", [True, False])
def test_what_is_no_log_ends_the_looking(tmp_path: Path, kind: str, read_before: bool) -> None:
    log = Following(tmp_path)
    log.write(4)
    if read_before:
        log.look()
    log.path.rename(tmp_path / "run.log.1")
    if kind == "link":
        log.path.symlink_to("/etc/passwd")
    elif kind == "loop":
        log.path.symlink_to(log.path)
    elif kind == "pipe":
        os.mkfifo(log.path)
    else:
        log.path.mkdir()
    # In a process of its own, which can be ended.
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            log.look()
        finally:
            os._exit(0 if log.read.count(b"line") == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("kept", [20, 25, 30, 49])
@pytest.mark.parametrize("written_before_we_are_back", [0, 1, 2, 3, 60])
@pytest.mark.parametrize("filled_with_zeros", [False, True])
def test_the_end_that_a_machine_lost_with_its_power(
    tmp_path: Path, kept: int, written_before_we_are_back: int, filled_with_zeros: bool
) -> None:
    """Five lines were shown; fewer were on the disk; then the run went on."""
    log = Following(tmp_path, limit=10000)
    log.write(5)
    log.look()
    log.restart()
    os.truncate(log.path, kept)
    if filled_with_zeros:
        os.truncate(log.path, 50)
    if written_before_we_are_back:
        mark = log_places.stamp_of(time.time())
        log.writer.write(b"--- tpu-fleet %s attempt 2 of digits begins on worker 0\n" % mark)
    log.write(written_before_we_are_back)
    log.look()
    log.write(2)
    log.look()
    numbers = [int(text) for text in re.findall(rb"line (\d{4})\n", log.read)]
    assert numbers == list(range(log.count))
    assert log.read.count(b"begins") == (1 if written_before_we_are_back else 0)
    assert log.lost == [log_places.LOST_POWER]


def test_a_clock_that_jumped_shows_nothing_twice(tmp_path: Path) -> None:
    log = Following(tmp_path, limit=10000)
    future = log_places.stamp_of(time.time() + 86400)
    log.writer.write(b"line 0 --- tpu-fleet %s attempt 1 of digits begins\n" % future)
    log.count = 1
    log.write(30)
    log.look()
    log.restart()
    log.write(30)
    log.look()
    assert log.lines == list(range(61))
    assert log.lost == []


def test_files_are_found_while_they_rotate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number may have been given to another file since the last one was opened."""
    log = Following(tmp_path, keep=10)
    log.write(13)
    rotations = iter((0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    plain = log_files.opened

    def opened(path: Path) -> log_files.Open | None:
        log.write(4 * next(rotations, 0))
        return plain(path)

    monkeypatch.setattr(log_files, "opened", opened)
    found = log_files.files_of(log.path)
    first = [int(os.pread(one.descriptor, 9, 0).split()[1]) for one in found]
    assert first[0] == 0
    assert first == list(range(0, 4 * len(first), 4))
    assert len(first) >= 4


# Where to begin


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(0, []), (1, [9]), (2, [8, 9]), (3, [7, 8, 9]), (6, [4, 5, 6, 7, 8, 9]), (99, [*range(10)])],
)
@pytest.mark.parametrize("chunk", [3, 10, 1 << 16])
def test_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, expected: list[int], chunk: int
) -> None:
    monkeypatch.setattr(log_places, "CHUNK", chunk)
    log = Following(tmp_path)
    log.write(10)
    assert begun(log, {"tail": lines}) == expected


def test_the_last_line_may_have_no_end_yet(tmp_path: Path) -> None:
    log = Following(tmp_path, limit=1000)
    log.write(3)
    log.writer.write(b"half")
    assert text(log, {"tail": 2}) == b"line 0002\nhalf"


def text(log: Following, order: dict[str, Any]) -> bytes:
    files = log_files.files_of(log.path)
    place = log_places.begin_at(files, order, log.most)
    one = files[place.file]
    log.at = [one.name, place.offset, log_places.sum_before(one, place.offset)]
    log.look()
    return log.read


def begun(log: Following, order: dict[str, Any]) -> list[int]:
    text(log, order)
    return log.lines


def mark(hour: int) -> bytes:
    return b"--- tpu-fleet 2026-11-20T%02d:00:00Z attempt 1 begins\r\n" % hour


@pytest.mark.parametrize(
    ("hour", "first"),
    [(1, b"before"), (3, b"--- tpu-fleet 2026-11-20T02"), (9, b"--- tpu-fleet 2026-11-20T08")],
)
def test_since_begins_at_the_last_place_whose_time_is_known(
    tmp_path: Path, hour: int, first: bytes
) -> None:
    path = tmp_path / "run.log"
    path.with_name("run.log.1").write_bytes(b"older\n")
    os.utime(path.with_name("run.log.1"), (0, 0))
    path.write_bytes(b"before\n" + mark(2) + b"two\n" + mark(8) + b"eight\n")
    log = Following(tmp_path)
    when = time.mktime((2026, 11, 20, hour, 30, 0, 0, 0, 0)) - time.timezone
    os.utime(path, (when + 86400, when + 86400))
    assert text(log, {"since": when}).startswith(first)


@pytest.mark.parametrize(
    ("order", "first"),
    [({}, 5), ({"tail": 3}, 7), ({"tail": 99}, 5), ({"since": 0}, 5), ({"at": ["", 0, 0]}, 5)],
)
@pytest.mark.parametrize("limit", [40, 1000])
def test_of_a_log_beyond_its_limit_the_end_is_read(
    tmp_path: Path, order: dict[str, Any], first: int, limit: int
) -> None:
    log = Following(tmp_path, limit, most=50)  # five lines
    log.write(10)
    assert begun(log, order) == [*range(first, 10)]


def test_since_within_the_part_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    lines = b"x" * 99 + b"\n"
    path.write_bytes(mark(1) + lines * 999 + mark(2) + b"two\n" + mark(8) + b"eight\n")
    log = Following(tmp_path, most=10000)
    when = time.mktime((2026, 11, 20, 3, 30, 0, 0, 0, 0)) - time.timezone
    assert text(log, {"since": when}) == mark(2) + b"two\n" + mark(8) + b"eight\n"
    when -= 2 * 3600
    log = Following(tmp_path, most=10000)
    assert text(log, {"since": when}).startswith(b"x")
    assert len(log.read) == log.most


@pytest.mark.parametrize("order", [{}, {"tail": 5}, {"since": 1}, {"at": ["", 0, 0]}])
def test_gigabytes_of_nothing_end_soon(tmp_path: Path, order: dict[str, Any]) -> None:
    """The folder's owner may have files there of any size that need no disk."""
    log = Following(tmp_path, most=1 << 20)
    for number in range(5):
        with (tmp_path / f"run.log.{number}").open("wb") as file:
            file.truncate(100 << 30)
    log.write(1)
    began = time.monotonic()
    log.look()
    files = log_files.files_of(log.path)
    place = log_places.begin_at(files, order, log.most)
    assert place.lost == "the log is larger than its limit, so only its last 0.0 GiB are read"
    assert (len(log.read), log.lost) == (log.most, [place.lost])
    assert sum(map(log_files.size_of, files[place.file :])) - place.offset == log.most
    assert time.monotonic() - began < 60


def test_a_place_before_the_part_that_is_read(tmp_path: Path) -> None:
    log = Following(tmp_path, limit=1000, most=50)
    log.write(2)
    log.look()
    log.cut()
    log.write(10)
    log.look()
    assert log.lines == [0, 1, 7, 8, 9, 10, 11]
    assert [text.partition(",")[0] for text in log.lost] == ["the log is larger than its limit"]


def test_who_does_not_follow_reads_no_log_that_grows_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Following(tmp_path, limit=1000)
    log.write(2)
    reader = run_reader.Reader(log.path, limit=100, follow=False)
    sent: list[dict[str, Any]] = []

    def send(piece: dict[str, Any], _data: bytes = b"") -> None:
        sent.append(piece)
        assert len(sent) < 100
        log.write(4)

    monkeypatch.setattr(run_reader, "send", send)
    assert reader.begin({})
    assert reader.send_all()
    assert sent[-1] == {"lost": run_reader.TOO_FAST}


def test_what_the_worker_could_not_write_is_said_once() -> None:
    full = {"log_path": "/l/run.log", "problems": ["other", "/l/run.log: No space left on device"]}
    over = {"log_path": "/l/run.log", "problems": ["/l/run.log.1 is large"]}
    now = "the worker cannot write this log now: /l/run.log: No space left on device"
    later = "1,500 bytes of this log are missing: the worker could not write them"
    looks = [
        *({}, {**full, "log_dropped_bytes": 900}, {**full, "log_dropped_bytes": 1200}),
        *({**over, "log_dropped_bytes": 1500}, {**over, "log_dropped_bytes": 1500}),
        {**full, "log_dropped_bytes": 1600},
    ]
    unwritten = run_reader.Unwritten({}, again=False)
    assert [unwritten.news(look) for look in looks] == ["", now, "", later, "", now]
    # One who comes back was told; only what is lost since then is news.
    unwritten = run_reader.Unwritten(looks[3], again=True)
    assert [unwritten.news(look) for look in looks[4:]] == ["", now]
    assert run_reader.Unwritten({}, again=False).news({"log_dropped_bytes": "9"}) == ""


def test_a_log_that_could_not_be_written_is_sent_with_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = RunFiles(tmp_path)
    for folder in (files.logs / "digits", files.states / "digits"):
        folder.mkdir(parents=True)
    (files.logs / "digits/run.log").write_text("a line\n")
    status = {"run": "digits", "state": "succeeded", "log_dropped_bytes": 42, "serial": 1}
    (files.states / "digits/status.json").write_text(json.dumps(status))
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(run_reader, "RunFiles", lambda: files)
    monkeypatch.setattr(run_reader, "send", lambda piece, _data=b"": sent.append(piece))
    run_reader.send_log({"run": "digits"})
    assert [piece.get("lost", "")[:31] for piece in sent[-2:]] == [
        *("42 bytes of this log are missin", ""),
    ]


@pytest.mark.parametrize(
    ("log", "limit"),
    [
        ({"bytes": 1 << 30, "files": 3}, 4 << 30),
        ({"bytes": 9, "files": 9}, runs.LOG_LEAST),
        (None, runs.LOG_LEAST),
    ],
)
def test_how_much_a_log_may_hold(tmp_path: Path, log: Any, limit: int) -> None:
    files = RunFiles(tmp_path)
    files.definitions.mkdir(parents=True)
    (files.definitions / "digits.json").write_text(json.dumps({"log": log}))
    assert files.log_limit("digits") == limit
    assert files.log_limit("none") == runs.LOG_LEAST


# The program


def started(order: dict[str, Any], **changed: str) -> subprocess.Popen[bytes]:
    """Start it as a worker does, with other folders."""
    command = reader_command(order).replace("/usr/bin/python3", sys.executable)
    for old, new in changed.items():
        command = command.replace(old, new)
    return subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_it_is_for_the_pythons_of_workers() -> None:
    for _name, text in modules():
        ast.parse(text, feature_version=(3, 8))
        used = re.findall(r"^(?:from|import) (\S+)", text, re.M)
        ours = {f"{room}.{name}" for room in ("", on_worker.__name__) for name in on_worker.MODULES}
        assert {name.partition(".")[0] for name in used if name not in ours} <= {
            *sys.stdlib_module_names
        }


def test_it_answers() -> None:
    with started({"do": "list"}) as process:
        out, _err = process.communicate(b"")
    first, _piece, answer = out.splitlines()
    assert first.decode() == run_reader.BEGINNING
    assert set(json.loads(answer)) - {"disk"} == {"now", "boot_id", "runs"}


def test_the_watchers_question_is_answered() -> None:
    text = program(*on_worker.READ).encode()
    done = subprocess.run([sys.executable, "-I", "-"], input=text, capture_output=True, check=True)
    assert {"now", "boot_id", "runs", "set_up", "applied", "used"} == set(json.loads(done.stdout))


def test_it_ends_when_nobody_listens(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits/run.log").write_text("a line\n")
    order = {"do": "log", "run": "digits", "follow": True}
    process = started(order, **{"var/log/tpu-fleet/runs": str(tmp_path)})
    assert process.stdin is not None
    assert process.stdout is not None
    lines = [process.stdout.readline() for _line in range(5)]
    assert lines[-1] == b"a line\n"
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()


def test_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of state is sent at once, figures as often as a reader wants them."""
    files = RunFiles(tmp_path)
    (files.states / "a").mkdir(parents=True)
    files.boot.parent.mkdir(parents=True)
    files.boot.write_text("this\n")
    sent: list[bytes] = []
    monkeypatch.setattr(run_reader, "send", lambda _piece, data=b"": sent.append(data))
    changes = run_reader.Changes(files)

    def looked(now: float, **status: Any) -> list[dict[str, Any]]:
        """Look after a status was written; return the runs of what was sent, {} a sign of life."""
        told = {"run": "a", "state": "running", "step": 1, **status}
        (files.states / "a/status.json").write_text(json.dumps(told))
        sent.clear()
        changes.look(now)
        return [dict(json.loads(data)["runs"][0]) if data else {} for data in sent]

    assert [run["step"] for run in looked(1000.0)] == [1]
    assert looked(1002.0) == []
    assert looked(1004.0, step=2) == []
    # The use of the chips changes with each look, as the step does.
    assert looked(1004.5, step=2, chips={"duty": 0.9}, mfu=0.4, tokens_per_second=9.0) == []
    assert [run["state"] for run in looked(1006.0, step=3, state="failed")] == ["failed"]
    changes.heard(b"60\n5\n")
    assert looked(1008.0, step=4, state="failed") == []
    assert [run["step"] for run in looked(1011.0, step=4, state="failed")] == [4]
    assert looked(1040.0, step=4, state="failed") == []
    assert looked(1041.0, step=4, state="failed") == [{}]
    changes.heard(b"nonsense\n")
    assert changes.pace == 5.0


def test_a_worker_tells_until_its_caller_is_gone() -> None:
    with started({"do": "changes"}) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().strip() == run_reader.BEGINNING.encode()
        size = json.loads(process.stdout.readline())["bytes"]
        assert {"now", "boot_id", "runs"} <= set(json.loads(process.stdout.read(size)))
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("mounts", "disk"),
    [
        ("/dev/sda1 / ext4 rw 0 0\n/dev/sdb /mnt/data ext4 rw,noatime 0 0\n", "/mnt/data"),
        ("/dev/loop3 /snap squashfs ro 0 0\n/dev/sda1 / ext4 rw 0 0\n", "/"),
        ("nfs:/x /mnt/data nfs rw 0 0\n/dev/fuse /mnt/data fuse.gcsfuse rw 0 0\n", None),
        ("overlay / overlay rw 0 0\noverlay /mnt/data overlay rw 0 0\n", "/"),
        ("", None),
    ],
)
def test_the_fullest_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, disk: str | None
) -> None:
    used = {"/": 10, "/mnt/data": 90, "/snap": 100}
    monkeypatch.setattr(runs, "used_percent", used.__getitem__)
    (tmp_path / "mounts").write_text(mounts)
    found = runs.fullest_disk(tmp_path / "mounts")
    assert found == ({"point": disk, "percent": used[disk]} if disk else {})


def test_no_disk_is_more_than_full() -> None:
    seen = runs.used_percent("/")
    assert seen is not None
    assert 0 <= seen <= 100
    assert runs.used_percent("/nowhere/at/all") is None
    assert runs.used_percent(__file__) is None


def test_statuses(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    for place in (files.states, files.spare, files.definitions):
        (place / "a").mkdir(parents=True)
    files.boot.parent.mkdir(parents=True)
    files.boot.write_text("this\n")
    old = {"run": "a", "state": "running", "serial": 4, "history": [1]}
    (files.states / "a/status.json").write_text(json.dumps(old))
    # The disk is full: the newer one is in memory.
    (files.spare / "a/status.json").write_text(json.dumps({**old, "serial": 5, "state": "x"}))
    (files.definitions / "b.json").write_text(json.dumps({"run": "b", "user": "bob"}))
    (files.definitions / "b.env.json").write_text("{}")
    assert files.all_told()["runs"] == [
        {"run": "a", "state": "x", "serial": 5, "declared": False},
        {"run": "b", "user": "bob", "state": "not started"},
    ]
