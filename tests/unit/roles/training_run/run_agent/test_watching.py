"""Events, progress, the fence, turns and maintenance: what is decided of what is seen."""

from __future__ import annotations

import json
import os
import pwd
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_agent import (
    config,
    events,
    fence,
    folder_facts,
    folder_look,
    guard,
    hand,
    journal,
    maintenance,
    preparation,
    processes,
    progress,
    stacks,
    status,
    story,
    terminal,
    turns,
    user_files,
)
from run_agent.fence import ELSEWHERE, GO, TAKE_OVER, Mark
from run_agent.gang_state import FAILED, RUNNING, STOPPING, SUCCEEDED, Gang, Policy, Report
from run_agent.inbox import Inbox
from run_agent.maintenance import Notice
from run_agent.member import Order
from run_agent.turns import Ticket, Turns
from run_definition import USUAL

ME = hand.Hand(pwd.getpwuid(os.geteuid()).pw_name)


def log_in(folder: Path, **more: Any) -> events.EventLog:
    given: dict[str, Any] = {"limit": 1000, "keep": 2, "prepare": lambda: None, "hand": ME, **more}
    return events.EventLog(folder / "log/events.jsonl", folder / "memory/events.jsonl", **given)


def told(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_events_are_whole_lines_in_files_that_rotate(tmp_path: Path) -> None:
    log = log_in(tmp_path, limit=40, prepare=lambda: (tmp_path / "log").mkdir(exist_ok=True))
    for number in range(20):
        log.write({"n": number})
    files = [log.path.with_name(f"events.jsonl{end}") for end in (".2", ".1", "")]
    kept = [number for path in files for number in told(path)]
    assert kept == list(range(20))[-len(kept) :]
    assert len(kept) >= 10
    assert all(path.stat().st_size <= 40 for path in files)


def test_events_of_a_full_disk_follow_later(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.write({"n": 1})  # the folder is not there
    log.write({"n": 2})
    assert "cannot be written" in log.error
    (tmp_path / "log").mkdir()
    log.catch_up()
    assert (told(log.path), log.error, log.spare.exists()) == ([1, 2], "", False)
    log.write({"n": 3})
    assert told(log.path) == [1, 2, 3]


def test_an_event_after_half_a_line_stands_alone(tmp_path: Path) -> None:
    log = log_in(tmp_path, prepare=lambda: None)
    log.path.parent.mkdir()
    log.path.write_text('{"n": 1}\n{"n":')
    log.write({"n": 2})
    assert log.path.read_text().splitlines()[-1] == '{"n":2}'


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe"])
def test_root_is_led_nowhere_by_the_users_folder(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "shadow"
    secret.write_text("secret\n")
    log = log_in(tmp_path)
    log.path.parent.mkdir()
    if kind == "symlink":
        log.path.symlink_to(secret)
    elif kind == "hard link":
        os.link(secret, log.path)
    else:
        os.mkfifo(log.path)
    log.write({"n": 1})
    assert secret.read_text() == "secret\n"
    assert user_files.tail(log.path, 100) == b""
    assert told(log.spare) == [1]
    assert log.spare.stat().st_mode & 0o777 == 0o600


BEFORE = Gang("def", "id", phase=RUNNING, attempt=3, owner="me")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, []),
        ({"phase": STOPPING}, []),
        ({"phase": SUCCEEDED}, ["run-succeeded"]),
        ({"phase": FAILED}, ["run-failed"]),
        ({"definition": "other", "phase": STOPPING}, ["definition-changed"]),
    ],
)
def test_what_is_told_of_a_gang(change: dict[str, Any], names: list[str]) -> None:
    assert [e["event"] for e in story.of_gang(BEFORE, replace(BEFORE, **change))] == names


def test_a_failure_has_last_lines_in_any_case() -> None:
    crashed, hung = ({"event": "run-failed", "tail": lines} for lines in (["KeyError: 1"], []))
    assert story.with_tail([crashed, hung], lambda: ["step 7"]) == [
        crashed,
        {"event": "run-failed", "tail": ["step 7"]},
    ]


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({}, {1: True}, []),  # who comes for the first time is not back
        ({}, {1: False}, []),
        ({1: True}, {1: False}, ["peer-lost"]),
        ({1: False}, {1: False}, []),
        ({1: False}, {1: True}, ["peer-back"]),
        ({1: True, 2: True}, {1: False, 2: False}, ["peer-lost", "peer-lost"]),
    ],
)
def test_what_is_told_of_peers(
    before: dict[int, bool], after: dict[int, bool], names: list[str]
) -> None:
    assert [event["event"] for event in story.of_peers(before, after)] == names


FIRST, SECOND = {"behind": "a", "user": "x", "since": 1}, {"behind": "b", "user": "x", "since": 1}


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (None, None, []),
        (None, FIRST, ["queued"]),
        (FIRST, {**FIRST, "since": 2}, []),
        (FIRST, SECOND, ["queued"]),
        (SECOND, None, ["queue-left"]),
    ],
)
def test_what_is_told_of_the_queue(before: Any, after: Any, names: list[str]) -> None:
    assert [event["event"] for event in story.of_queue(before, after)] == names


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (b"", None),
        (b"loss 3\n", None),
        (b"step 3\nstep 4\nloss 2\n", 4),
        (b"Step: 5 of 9, step=6\n", 6),
        (b"step 7\rstep 8\r", 8),
        (b"x" * 600 + b"step 9\n", None),  # lines are not searched for ever
    ],
)
def test_the_step_in_a_log(text: bytes, step: int | None) -> None:
    pattern, error = progress.compiled(r"step[ =:]+(\d+)")
    assert pattern is not None
    assert (progress.last_step(text, pattern), error) == (step, "")


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (b"loss\n", None),
        (b"loss\nstep 3\nstep 4\n", 3),
        (b"step 7\rstep 8\r", 7),
        (b"x" * 600, None),
    ],
)
def test_the_first_step_in_a_log(text: bytes, step: int | None) -> None:
    pattern, _error = progress.compiled(r"step[ =:]+(\d+)")
    assert pattern is not None
    assert progress.first_step(text, pattern) == step


@pytest.mark.parametrize(("pattern", "word"), [("(", "step_pattern"), ("step", "one group")])
def test_a_pattern_that_is_none_is_said(pattern: str, word: str) -> None:
    made, error = progress.compiled(pattern)
    assert made is None
    assert word in error


@pytest.mark.parametrize(
    ("text", "step"),
    [(b'{"step": 3}', 3), (b'{"step": true}', None), (b'{"step": "3"}', None), (b"[1", None)],
)
def test_what_a_program_says_itself(text: bytes, step: int | None) -> None:
    assert progress.said(text) == step


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        (b'{"step": 3, "loss": 0.5}', 0.5),
        (b'{"loss": 7}', 7.0),
        (b'{"loss": NaN}', "nan"),
        (b'{"loss": -Infinity}', "-inf"),
        (b'{"loss": 1e300}', None),
        (b'{"loss": "0.5"}', None),
        (b'{"loss": true}', None),
        (b"[1", None),
    ],
)
def test_the_loss_that_a_program_says_itself(text: bytes, loss: progress.Loss) -> None:
    assert progress.said_loss(text) == loss


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        (b"step 1 loss 2.5\nstep 2 loss: 1.25e-1, lr 3\nsaved\n", 0.125),
        (b"{'loss': 0.75, 'eval_loss_x': 3}", 0.75),
        (b"train Loss=nan", "nan"),
        (b"glossy 3, lossless 4, loss of 5 %", None),
        (b"loss 1.2.3", None),
        (b"loss " + b"9" * 400, None),
        (b"x" * 600 + b" loss 3", None),
        (b"", None),
    ],
)
def test_the_loss_in_a_log(text: bytes, loss: progress.Loss) -> None:
    assert progress.last_loss(text) == loss


@pytest.mark.parametrize(
    ("newest", "at"),
    [
        (1_500_000_000, 1.5),
        (0, 0.0),
        (-1, None),
        (True, None),
        ("1", None),
        (10**30, None),
        ([1], None),
        (None, None),
    ],
)
def test_when_a_checkpoint_was_written(newest: object, at: float | None) -> None:
    assert progress.saved_at(newest) == at


def test_where_an_attempt_went_on_is_remembered() -> None:
    memory = status.reached(status.Memory(attempt=1, start=100.0), 9, 150.0, 7)
    memory = status.reached(memory, 12, 160.0, 7)
    assert (memory.first_step, memory.first_step_at, memory.step) == (7, 150.0, 12)
    past = status.ended(memory, "", 170.0).history[-1]
    assert (past["first_step"], past["step"]) == (7, 12)
    order = Order("running", 2, "d", "r")
    begun = status.begun(memory, order, "boot", 180.0)
    assert (begun.first_step, begun.first_step_at, begun.step) == (None, None, 12)


def test_a_step_belongs_to_its_attempt() -> None:
    memory = status.reached(status.Memory(start=100.0), 7, 150.0)
    assert status.step_of_attempt(memory) == 7
    assert status.reached(memory, 7, 160.0) == memory
    assert status.step_of_attempt(replace(memory, start=200.0)) is None
    # An attempt that goes on where the one before was: its step is its own all the same.
    again = replace(memory, start=200.0, first_step=None)
    assert status.step_of_attempt(status.reached(again, 7, 210.0)) == 7
    running = status.in_state(memory, "running", 300.0)
    assert status.in_state(running, "running", 400.0).since == 300.0


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\r\ntwo\r\n\n", ["one", "two"]),
        (b"\x1b[31mred\x1b[0m\n10%\r50%\r100%\n", ["red", "100%"]),
        (b"\n".join(b"%d" % n for n in range(50)), [str(n) for n in range(30, 50)]),
    ],
)
def test_the_last_lines_are_plain_text(data: bytes, lines: list[str]) -> None:
    assert journal.last_lines(data) == lines


OLD = Mark(7, "old", "digits-1", "vm-a")


@pytest.mark.parametrize(
    ("found", "claimed", "todo"),
    [
        (None, False, GO),
        (None, True, GO),
        (replace(OLD, owner="me"), True, GO),
        (replace(OLD, owner="me", reserved=True), False, GO),
        (OLD, False, TAKE_OVER),  # a slice that is made anew
        (OLD, True, ELSEWHERE),  # one that comes back
    ],
)
def test_whose_the_checkpoint_folder_is(found: Mark | None, claimed: bool, todo: str) -> None:
    assert fence.judge(found, "me", claimed) == todo


@pytest.mark.parametrize(
    ("found", "attempt", "out"),
    [
        (None, 3, False),
        (Mark(3, "me"), 3, False),
        (Mark(2, "other"), 3, False),
        (Mark(4, "other"), 3, True),
        (Mark(4, "me"), 3, True),
        (Mark(3, "other"), 3, True),
    ],
)
def test_who_is_shut_out(found: Mark | None, attempt: int, out: bool) -> None:
    assert bool(fence.shuts_out(found, "me", attempt)) is out


def test_a_mark_is_written_and_read_and_trusted_little(tmp_path: Path) -> None:
    path = fence.path_of(str(tmp_path / "new/folder"), "digits")
    assert path is not None
    assert fence.path_of("gs://bucket/digits", "digits") is None
    assert fence.read(path) is None
    fence.write(path, OLD)
    assert fence.read(path) == OLD
    assert fence.floor(OLD) == 7
    heir = fence.heir(OLD, "new", "vm-b")
    assert (heir.attempt, heir.run_id, fence.floor(heir)) == (8, "digits-1", 7)
    for text in (
        "",
        "{",
        "[]",
        '{"attempt": "9", "owner": "x"}',
        '{"attempt": true, "owner": "x"}',
    ):
        path.write_text(text)
        assert fence.read(path) is None


def test_a_look_takes_over_only_in_a_name(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / ".tpu-fleet-attempt.digits"
    fence.write(path, OLD)
    asked = {"path": str(path), "owner": "", "where": "vm-b"}
    folder_look.child(json.dumps(asked))
    seen = json.loads(capsys.readouterr().out)
    assert (seen["mark"]["owner"], fence.read(path)) == ("old", OLD)
    assert seen["free"] > 0
    folder_look.child(json.dumps({**asked, "owner": "new"}))
    seen = json.loads(capsys.readouterr().out)
    assert (seen["mark"]["owner"], seen["mark"]["reserved"]) == ("new", True)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/alice/ck", "ext4"),
        ("/mnt/share/ck", "nfs4"),
        ("/mnt/share-of-mine/ck", "ext4"),
        ("/mnt/my disk/ck", "xfs"),
        ("/mnt/twice", "fuse.gcsfuse"),
    ],
)
def test_on_what_a_folder_lies(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
        "2 1 0:40 / /mnt/share rw - nfs4 server:/share rw\n"
        "3 1 8:2 / /mnt/my\\040disk rw - xfs /dev/sdb rw\n"
        "4 1 8:3 / /mnt/twice rw - ext4 /dev/sdc rw\n"
        "5 4 0:41 / /mnt/twice rw - fuse.gcsfuse bucket rw\n"
    )
    assert folder_look.kind_of(Path(folder), mounts) == kind


def test_a_newer_file_is_seen_below_but_not_our_own(tmp_path: Path) -> None:
    (tmp_path / "10/shard").mkdir(parents=True)
    before = guard.changes(tmp_path).latest
    (tmp_path / ".tpu-fleet-attempt.digits").write_text("{}")
    assert guard.changes(tmp_path).latest == before
    os.utime(tmp_path / "10/shard", ns=(0, before + 1))
    assert guard.changes(tmp_path).latest == before + 1
    assert guard.changes(tmp_path, limit=1).seen <= 2


def written(folder: Path, name: str, at: int) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    for path in (file, *file.parents):
        if folder in path.parents:
            os.utime(path, (at, at))


@pytest.mark.parametrize(
    "half",
    [
        "200.orbax-checkpoint-tmp/default/d/1",
        "200.orbax-checkpoint-tmp-1732600000/default/d/1",
        "200/default.orbax-checkpoint-tmp-3/d/1",
        "tmp-checkpoint-200/model.safetensors",
        "tmpk3j2x0ab/state.pt",
        "step-200.pt.tmp",
        "step-200.pt.tmp.4711",
        "step-200.pt~",
        "step-200.pt.part",
        "model.ckpt-200_temp/part-00000-of-00001",
        ".step-200.pt.Xy81Za",
        ".tpu-fleet-attempt.digits",
        "events.out.tfevents.1732600000.host",
        "logs/events.out.tfevents.1732600000.host",
        "train.log",
        "metrics.jsonl",
    ],
)
@pytest.mark.parametrize("whole", ["100/default/d/1", "step-100.pt", "part-00000-of-00002"])
def test_what_is_not_whole_is_no_checkpoint(tmp_path: Path, half: str, whole: str) -> None:
    written(tmp_path, half, 2000)
    assert guard.changes(tmp_path).saved == 0
    written(tmp_path, whole, 1000)
    found = guard.changes(tmp_path)
    assert found.saved == 1000 * 10**9
    # What is being written is a sign of life all the same.
    assert half.startswith(".tpu-fleet") or found.latest == 2000 * 10**9


def test_a_checkpoint_counts_from_when_it_is_whole(tmp_path: Path) -> None:
    written(tmp_path, "1.orbax-checkpoint-tmp/d/1", 1000)
    (tmp_path / "1.orbax-checkpoint-tmp").rename(tmp_path / "1")
    assert guard.changes(tmp_path).saved == 1000 * 10**9
    # That an old one is removed is none.
    written(tmp_path, "0/d/1", 500)
    (tmp_path / "0/d/1").unlink()
    assert guard.changes(tmp_path).saved == 1000 * 10**9


def test_a_link_and_a_pipe_are_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    assert guard.changes(tmp_path).saved == 0
    assert guard.changes(tmp_path / "gone") == guard.Changes()


def test_of_many_files_the_newest_are_looked_at(tmp_path: Path) -> None:
    for step in range(20):
        for number in range(10):
            written(tmp_path, f"{step}/d/{number}", 1000 + step)
    assert guard.changes(tmp_path, limit=60).saved == 1019 * 10**9


def test_another_definition_may_have_another_checkpoint_folder() -> None:
    kept = {"definition": "a", "saved_at": 5.0, "step": 3}
    assert status.Memory.from_json(kept, "a").saved_at == 5.0
    assert status.Memory.from_json(kept, "b").saved_at is None


MINE = Ticket("b", "bob", number=2)


@pytest.mark.parametrize(
    ("others", "first"),
    [
        ([], None),
        ([(Ticket("a", "alice", 1), 0)], "a"),
        ([(Ticket("a", "alice", 2), 0)], "a"),  # two of one number: by name, everywhere the same
        ([(Ticket("c", "carol", 3), 0)], None),
        ([(Ticket("c", "carol", 3, holds=True), 0)], "c"),
        ([(Ticket("a", "alice", 1, stuck=True), 0)], None),
        ([(Ticket("c", "carol", 3, holds=True, stuck=True), 0)], "c"),
        ([(Ticket("a", "alice", 1), 29)], "a"),  # its agent is starting
        ([(Ticket("a", "alice", 1, holds=True), 31)], None),
        ([(Ticket("a", "alice", 1), 0), (Ticket("c", "carol", 3, holds=True), 0)], "c"),
    ],
)
def test_who_is_first(others: list[tuple[Ticket, float]], first: str | None) -> None:
    found = turns.ahead(MINE, others, lost=30)
    assert (found.run if found else None) == first
    assert turns.ahead(replace(MINE, holds=True), others, lost=30) is None


def test_turns_are_kept_until_the_end(tmp_path: Path) -> None:
    def of(run: str, boot: str = "boot", position: int | None = None) -> Turns:
        return Turns(tmp_path, run, "bob", boot, 30, position)

    first, second = of("a"), of("b")
    assert first.ask(stuck=True) is None
    assert not first.holding  # it could not start
    assert second.ask(stuck=False) is None
    assert second.holding
    assert (first.ask(stuck=False) or {})["behind"] == "b"
    second.leave(for_good=False)
    assert first.ask(stuck=False) is None
    # Started again in the same boot, it stands at the end; after a reboot it is where it was.
    assert (of("b").ask(stuck=False) or {})["behind"] == "a"
    first.leave(for_good=False)
    after = of("c", "next boot")
    assert (after.ask(stuck=False) or {})["behind"] == "a"
    assert of("a", "next boot").ask(stuck=False) is None
    of("a").leave(for_good=True)
    assert (after.ask(stuck=False) or {})["behind"] == "b"


def test_several_slices_have_the_order_of_the_file(tmp_path: Path) -> None:
    first, third, second = (
        Turns(tmp_path, run, "bob", "boot", 30, position)
        for run, position in (("a", 0), ("b", 2), ("c", 1))
    )
    assert first.ask(stuck=False) is None
    for waits in (third, second):
        assert (waits.ask(stuck=False) or {})["behind"] == "a"
    first.leave(for_good=True)
    assert (third.ask(stuck=False) or {})["behind"] == "c"


UPCOMING = {"window_start_time": "2026-11-22T05:00:00Z", "maintenance_status": "PENDING"}
AT_FIVE = Notice("2026-11-22T05:00:00Z", 1795323600.0)


@pytest.mark.parametrize(
    ("upcoming", "event", "found"),
    [
        ({}, "NONE", None),
        (None, "", None),
        ({}, "TERMINATE_ON_HOST_MAINTENANCE", Notice(ongoing=True)),
        (UPCOMING, "NONE", AT_FIVE),
        ({**UPCOMING, "maintenance_status": "ONGOING"}, "NONE", replace(AT_FIVE, ongoing=True)),
        ({"windowStartTime": "2026-11-22T05:00:00.5Z"}, "NONE", None),
        ({"window_start_time": "soon"}, "NONE", Notice("soon")),
    ],
)
def test_what_a_notice_says(upcoming: Any, event: str, found: Notice | None) -> None:
    seen = maintenance.notice(upcoming, event)
    if upcoming and "windowStartTime" in upcoming:
        assert seen is not None
        assert seen.begins == AT_FIVE.begins
    else:
        assert seen == found


@pytest.mark.parametrize(
    ("found", "before", "asks"),
    [
        (None, 0, False),
        (AT_FIVE, 300, False),
        (AT_FIVE, 120, True),
        (AT_FIVE, -60, True),
        (replace(AT_FIVE, ongoing=True), 300, True),
        (Notice("soon"), 0, False),
    ],
)
def test_when_to_save(found: Notice | None, before: float, asks: bool) -> None:
    due = maintenance.due(found, 1795323600.0 - before, lead=120)
    assert bool(due) is asks


@pytest.mark.parametrize(
    ("free", "wanted", "text"),
    [(None, 5, ""), (5, 5, ""), (4, 5, "/log has 4 B free, a start needs 5 B (min_free_bytes)")],
)
def test_room_on_a_disk(free: int | None, wanted: int, text: str) -> None:
    assert preparation.low(Path("/log"), free, wanted) == text
    assert preparation.size(3 * 2**30) == "3.0 GiB"


def test_only_handlers_are_signalled(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/status").write_text(f"Name:\tx\nSigCgt:\t{1 << (stacks.SIGNAL - 1):016x}\n")
    assert processes.catches(7, stacks.SIGNAL, tmp_path)
    assert not processes.catches(7, 10, tmp_path)
    assert not processes.catches(8, 10, tmp_path)


def test_the_hook_and_the_agent_mean_one_signal() -> None:
    hook = Path(stacks.__file__).parents[1] / "hang_hook/sitecustomize.py"
    found = re.search(r"^_SIGNAL = (\d+)", hook.read_text(), re.MULTILINE)
    assert found is not None
    assert int(found[1]) == stacks.SIGNAL


@pytest.mark.parametrize(
    ("written", "looks"),
    [
        (["one\n"], 2),  # as nearly always
        (["", "", "one\n", "two\n"], 5),  # tmux was late
        ([""] * 20, 10),  # a full disk: the run goes on without
    ],
)
def test_what_a_program_wrote_of_itself_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: list[str], looks: int
) -> None:
    public = {**USUAL, **dict.fromkeys(("run", "user", "command", "workdir"), "")}
    public.update(
        user=pwd.getpwuid(os.geteuid()).pw_name, hosts=["h"], worker=0, port=1, coordinator_port=2
    )
    log, target = tmp_path / "run.log", tmp_path / "hang-1.txt"
    log.write_text("step 1\n")
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        with log.open("a") as out:
            out.write(written[len(slept) - 1] if len(slept) <= len(written) else "")

    monkeypatch.setattr(stacks, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(stacks, "py_spy", lambda _config: None)
    monkeypatch.setattr(processes, "catches", lambda _pid, _number: True)
    monkeypatch.setattr(processes, "send", lambda pids, _number, _uid: list(pids))
    made = config.parse({**public, "paths": {"log": str(log)}}, {})
    stacks.write(made, ME, [os.getpid()], target, "A run")
    assert target.read_text().endswith("as in the log\n" + "".join(written))
    assert len(slept) == looks
    assert 1.0 <= sum(slept) <= 5.0


def test_root_runs_only_what_nobody_else_can_change(tmp_path: Path) -> None:
    program = tmp_path / "py-spy"
    program.touch(0o755)
    tmp_path.chmod(0o777)
    assert not terminal.only_roots(program)
    assert not terminal.only_roots(tmp_path / "missing")


def test_an_older_report_overtakes_no_newer_one() -> None:
    policy = Policy("def", 2, retries=1, fail_fast_seconds=1, lost_seconds=30)
    inbox = Inbox(policy, now=0.0)
    new = Report(1, "boot", "def", program="exited", sent=5.0)
    inbox.take(new, 10.0)
    inbox.take(replace(new, program="running", sent=4.0), 11.0)
    seen = inbox.seen(BEFORE, 12.0)
    assert seen[1] == (new, 2.0)
    assert seen[0][0].program == "running"  # not heard yet, and not lost yet
    inbox.take(replace(new, boot_id="next", sent=1.0), 13.0)
    assert inbox.seen(BEFORE, 13.0)[1][0].boot_id == "next"
    assert 0 not in inbox.seen(BEFORE, 31.0)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (b'{"step": 3, "loss": 0.5, "lr": 1}', {"loss": 0.5, "lr": 1.0}),
        (b'{"loss": NaN, "a": Infinity, "b": true, "c": "1", "d": [1], "e": null}', {}),
        (b'{"<script>": 1, "x y": 2, "": 3, "train/loss": 4}', {"train/loss": 4.0}),
        (b'{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}', {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}),
        (b'{"a": 1' + b"0" * 400 + b"}", {}),
        (b"[1]", {}),
        (b"{", {}),
        (b"", {}),
    ],
)
def test_the_numbers_that_a_program_says(text: bytes, numbers: dict[str, float]) -> None:
    assert progress.numbers(text) == numbers


MOUNTS = """
21 1 8:1 / / rw - overlay overlay rw
31 21 8:16 / /mnt/data rw - ext4 /dev/sdb rw
32 21 0:50 / /mnt/bucket rw - fuse.gcsfuse lab rw
33 21 0:51 / /mnt/share rw - nfs4 10.0.0.9:/lab rw
"""


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("/home/alice/ck", "own disk"),
        ("/mnt/data/ck", "data disk"),
        ("/mnt/bucket/ck", "bucket"),
        ("/mnt/share", "NFS share"),
        ("/mnt/database", "own disk"),
    ],
)
def test_on_what_a_checkpoint_folder_is(folder: str, place: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.lstrip())
    assert folder_facts.place_of(Path(folder), mounts) == place
