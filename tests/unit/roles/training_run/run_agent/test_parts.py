"""Definitions, environment, devices, logs, files and what a program's parent wrote."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pwd
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.tpu.fleet.plugins.module_utils._core import worker_words
from run_agent import (
    as_user,
    config,
    devices,
    environment,
    logs,
    processes,
    progress,
    secrets,
    status,
    store,
    story,
)
from run_agent.member import Order
from run_definition import USUAL

PUBLIC: dict[str, Any] = {
    **USUAL,
    "run": "demo",
    "user": "alice",
    "command": "python train.py",
    "workdir": "/code",
    "slice": "pair",
    "hosts": ["10.0.0.2", "10.0.0.3"],
    "worker": 1,
    "port": 21000,
    "coordinator_port": 21001,
    "venv": "/opt/venvs/jax",
    "checkpoint_dir": "/ck",
    "code": {"tree": "digits", "version": "abc"},
}


ROOT = Path(__file__).resolve().parents[5]
WRITTEN = [
    json.loads(file["content"])
    for golden in sorted((ROOT / "tests/unit/roles/_definitions/training_run").glob("*.json"))
    for file in json.loads(golden.read_text())["definitions"]["files"]
    if file["path"].endswith(".json")
]
# What the first version of the role wrote, and every later one.
FIRST = {
    *("run", "user", "command", "hosts", "worker", "port", "coordinator_port", "workdir", "code"),
    *("venv", "checkpoint_dir", "retries", "fail_fast_seconds", "stop_signal", "grace_seconds"),
    *("multislice", "timing", "log"),
}


def test_definitions_of_all_versions_are_read() -> None:
    """A host that an earlier version set up keeps its runs."""
    assert len(WRITTEN) > 30
    for public in WRITTEN:
        now = config.parse(public, {})
        before = config.parse({key: value for key, value in public.items() if key in FIRST}, {})
        assert (before.retries, before.hosts) == (now.retries, now.hosts)
        assert (before.peer_port, now.peer_port) == (public["port"], public["peer_port"])
        assert (before.fence, before.needs_tpu) == (public["run"], "auto")


def test_a_definition_is_read_as_it_is_written() -> None:
    (public,) = (public for public in WRITTEN if public["run"] == "digits-pair")
    read = vars(config.parse(public, {}))
    same = {key: value for key, value in public.items() if key in read and key != "timing"}
    assert {key: read[key] for key in same} == {**same, "code": "digits"}
    assert (read["timing"].lost, read["log_bytes"], read["log_files"]) == (12, 1000, 2)


def test_the_usual_step_pattern_is_what_the_role_says() -> None:
    spec = yaml.safe_load((ROOT / "roles/training_run/meta/argument_specs.yml").read_text())
    keys = spec["argument_specs"]["main"]["options"]["training_run_runs"]["options"]
    assert keys["step_pattern"]["default"] == config.STEP_PATTERN


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"worker": 0}, True),
        ({"peer_port": 288}, True),  # a run goes on when its agents take another port
        ({"hosts": ["10.0.0.9", "10.0.0.8"]}, True),
        ({"log": {"bytes": 1}}, True),
        ({"hang_seconds": 60, "min_free_bytes": 1, "needs_tpu": "true"}, True),  # the agent's only
        ({"command": "python other.py"}, False),
        ({"code": {"tree": "digits", "version": "def"}}, False),
        ({"retries": 9}, False),
        ({"slice": "solo"}, True),
    ],
)
def test_what_makes_another_definition(change: dict[str, Any], same: bool) -> None:
    before = config.definition_of(PUBLIC, {"A": "1"})
    assert (config.definition_of({**PUBLIC, **change}, {"A": "1"}) == before) is same
    assert config.definition_of(PUBLIC, {"A": "2"}) != before


def test_secrets_are_read_from_their_own_file(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    path.write_text(json.dumps(PUBLIC))
    (tmp_path / "demo.env.json").write_text('{"TOKEN": "x"}')
    assert config.load(path).env == {"TOKEN": "x"}
    assert config.load(path, secrets=False).env == {}


ALICE = pwd.struct_passwd(("alice", "x", 1000, 1000, "", "/home/alice", "/bin/bash"))


def test_the_environment() -> None:
    several = {"coordinator": "10.0.0.2", "num_slices": 2, "slice_id": 1}
    given = config.parse({**PUBLIC, "multislice": several}, {"TPU_FLEET_RUN": "lie", "MINE": "1"})
    basis = as_user.environment_of(ALICE)
    found = environment.of_program(given, "demo-1", 4, basis)
    assert found["PATH"].startswith("/opt/venvs/jax/bin:")
    expected = {
        "TPU_FLEET_RUN": "demo",
        "TPU_FLEET_RUN_ID": "demo-1",
        "TPU_FLEET_ATTEMPT": "4",
        "TPU_FLEET_CHECKPOINT_DIR": "/ck",
        "TPU_FLEET_SLICE": "pair",
        "TPU_FLEET_WORKER": "1",
        "TPU_FLEET_WORKERS": "2",
        "TPU_FLEET_COORDINATOR": "10.0.0.2:21001",
        "WANDB_RUN_ID": "demo-1",
        "WANDB_RESUME": "allow",
        "MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.2",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
        "MINE": "1",
        "HOME": "/home/alice",
    }
    assert expected.items() <= found.items()
    alone = environment.of_program(config.parse(PUBLIC, {}), "demo-1", 1, basis)
    assert not [name for name in alone if name.startswith("MEGASCALE")]


SEVERAL = {"slices": [["10.0.0.2", "10.0.0.3"], ["10.1.0.2", "10.1.0.3"]], "megascale_port": 25001}


@pytest.mark.parametrize(("worker", "place"), [(0, (0, 0)), (1, (0, 1)), (2, (1, 0)), (3, (1, 1))])
def test_a_gang_of_several_slices(worker: int, place: tuple[int, int]) -> None:
    hosts = [host for one in SEVERAL["slices"] for host in one]
    given = config.parse({**PUBLIC, **SEVERAL, "hosts": hosts, "worker": worker}, {})
    assert (given.place, given.workers, given.leader) == (place, 4, worker == 0)
    found = environment.of_program(given, "demo-1", 4, {"PATH": "/bin"})
    expected = {
        "TPU_FLEET_WORKER": str(worker),
        "TPU_FLEET_WORKERS": "4",
        "TPU_FLEET_COORDINATOR": "10.0.0.2:21001",
        "MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.2:25001",
        "MEGASCALE_PORT": "25001",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": str(place[0]),
    }
    assert expected.items() <= found.items()
    # Other addresses leave the run what it is; another number of slices does not.
    same = config.definition_of({**PUBLIC, **SEVERAL, "worker": worker}, {})
    assert same == config.definition_of(PUBLIC, {})
    assert same != config.definition_of({**PUBLIC, "multislice": {"num_slices": 3}}, {})


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Make a root folder with two chips, a lock file and one process."""
    for name in ("dev/accel0", "dev/vfio/0", "tmp/libtpu_lockfile", "proc/77/comm"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("python\n")
    (tmp_path / "proc/77/fd").mkdir()
    (tmp_path / "proc/self").mkdir()
    return tmp_path


@pytest.mark.parametrize("device", ["/dev/accel0", "/dev/vfio/0"])
def test_a_held_chip_is_reported_and_its_lock_left_alone(host: Path, device: str) -> None:
    (host / "proc/77/fd/5").symlink_to(device)
    text = devices.obstacle(host)
    assert text.startswith(f"{device} is held by process 77 (python) of ")
    assert (host / "tmp/libtpu_lockfile").exists()


@pytest.mark.parametrize("left", ["file", "folder", "link", "nothing"])
def test_the_lock_file_is_the_users_whatever_was_there(host: Path, left: str) -> None:
    (host / "proc/77/fd/5").symlink_to("/dev/null")
    assert devices.obstacle(host) == ""
    lock, precious = host / "tmp/libtpu_lockfile", host / "precious"
    precious.write_text("kept")
    if left != "file":
        lock.unlink()
    if left == "folder":
        (lock / "deep").mkdir(parents=True)
    elif left == "link":
        lock.symlink_to(precious)
    devices.give_lock_file(host, 2002, 2003)
    seen = lock.lstat()
    assert (stat.S_ISREG(seen.st_mode), seen.st_uid, seen.st_gid, seen.st_size) == (
        True,
        2002,
        2003,
        0,
    )
    assert (precious.read_text(), precious.stat().st_uid) == ("kept", os.getuid())
    moved = list((host / "tmp").glob(".libtpu_lockfile-moved-away-*"))
    assert [
        (one.stat().st_mode & 0o777, (one / "libtpu_lockfile/deep").is_dir()) for one in moved
    ] == ([(0o700, True)] if left == "folder" else [])


def test_a_log_rotates_at_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    log = logs.LogFile(path, limit=20, keep=2)
    log.write(b"".join(b"line %d\n" % number for number in range(9)))
    log.write(b"x" * 45 + b"\n")
    log.close()
    sizes = {item.name: item.stat().st_size for item in tmp_path.iterdir()}
    assert sizes == {"run.log": 6, "run.log.1": 20, "run.log.2": 20}
    log = logs.LogFile(path, limit=20, keep=2)
    log.write(b"appended\n")
    assert path.read_bytes() == b"xxxxx\nappended\n"


def test_a_full_disk_is_counted_and_forgotten_when_it_is_over(tmp_path: Path) -> None:
    health = logs.Health(tmp_path / "log.json", Path("/var/log/run.log"))
    full = OSError(errno.ENOSPC, "No space left on device")
    health.lost(10, full, now=0)
    health.lost(5, full, now=1)  # told every few seconds only
    assert store.read(tmp_path / "log.json") == {
        "error": "/var/log/run.log: No space left on device",
        "dropped_bytes": 10,
    }
    health.well(now=2)
    assert store.read(tmp_path / "log.json") == {"error": "", "dropped_bytes": 15}


def test_a_file_that_cannot_be_kept_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("not a folder")
    kept = store.Kept(tmp_path / "disk/status.json", tmp_path / "memory/status.json")
    kept.save({"attempt": 1})
    assert "status.json cannot be written" in kept.error
    assert store.Kept(kept.path, kept.spare).load() == {"attempt": 1, "serial": 1}
    (tmp_path / "disk").unlink()
    kept.save({"attempt": 1})
    assert kept.error == ""
    assert store.read(kept.path) == {"attempt": 1, "serial": 2}
    assert not kept.spare.exists()


def test_nothing_new_is_not_written(tmp_path: Path) -> None:
    kept = store.Kept(tmp_path / "a.json", tmp_path / "b.json")
    kept.save({"attempt": 1})
    kept.save({"attempt": 1})
    assert (kept.load() or {})["serial"] == 1


STARTED = status.begun(status.Memory(), Order("running", 2, "def", "id"), boot_id="here", now=100.0)
RECORD = {"attempt": 2, "pid": 12, "parent": 11, "parent_started": 555}


@pytest.mark.parametrize(
    ("record", "result", "boot", "age", "alive", "code", "cause"),
    [
        (None, None, "here", 1, True, None, ""),  # tmux has not come to it yet
        (None, None, "here", 99, False, None, ""),
        (None, None, "after", 1, False, None, "rebooted"),
        (RECORD, None, "here", 99, True, None, ""),
        (
            {**RECORD, "parent_started": 5},
            None,
            "here",
            99,
            False,
            None,
            "",
        ),  # the pid is another's
        ({**RECORD, "parent": "x"}, None, "here", 99, False, None, ""),
        ({**RECORD, "attempt": 1}, None, "here", 99, False, None, ""),
        (RECORD, {"attempt": 2, "exit_code": 3}, "here", 99, False, 3, ""),
        (RECORD, {"attempt": 1, "exit_code": 3}, "here", 99, True, None, ""),
        (RECORD, {"attempt": 2, "exit_code": "3"}, "here", 99, False, None, ""),
        (RECORD, {"attempt": 2, "adrift": True}, "here", 99, False, None, "lost its terminal"),
    ],
)
def test_what_became_of_a_program(
    record: Any, result: Any, boot: str, age: float, alive: bool, code: int | None, cause: str
) -> None:
    seen = status.look(STARTED, record, result, boot, {11: 555}.get, age)
    assert (seen.alive, seen.memory.exit_code, seen.memory.cause) == (alive, code, cause)


def test_a_program_without_a_terminal_is_seen_while_it_lives() -> None:
    seen = status.look(STARTED, {**RECORD, "adrift": True}, None, "here", {11: 555}.get, 99)
    assert (seen.alive, seen.adrift) == (True, True)
    assert not status.look(STARTED, RECORD, None, "here", {11: 555}.get, 99).adrift


EXTREME = [
    -1, -5, 0, True, 2**22 + 1, 2**31, -(2**31), 2**53 + 1, 10**30, 1e308, -1e308, float("nan"),
    float("inf"), "x", "\ud800", "x" * 10**5, [], [[]], {}, None,
]  # fmt: skip


@pytest.mark.parametrize("value", EXTREME, ids=range(len(EXTREME)))
def test_whatever_a_user_writes_the_controller_accepts_the_status(value: Any) -> None:
    """The agent bounds what it takes from files of the run's user."""
    record = {**RECORD, "pid": value}
    seen = status.look(STARTED, record, None, "here", {11: 555}.get, 99)
    assert seen.memory.pid is None
    record = {**RECORD, "parent": value}
    assert status.look(STARTED, record, None, "here", {11: 555}.get, 99).memory.parent is None
    result = dict.fromkeys(("exit_code", "signal", "end", "adrift", "fenced"), value)
    seen = status.look(STARTED, RECORD, {"attempt": 2, **result}, "here", {11: 555}.get, 99)
    written = json.dumps({"step": value, "loss": value, "numbers": value}).encode()
    memory = replace(
        status.reached(seen.memory, progress.said(written), 200.0),
        loss=progress.said_loss(written),
        saved_at=progress.saved_at(value),
    )
    shown: dict[str, Any] = {"reason": "", "problems": [], "dropped": 0, "peers": None}
    composed = status.compose(config.parse(PUBLIC, {}), memory, **shown)
    (run,) = worker_words.runs_of("w", json.dumps([json.loads(json.dumps(composed))]))
    assert run.state != worker_words.REFUSED, run.reason


@pytest.mark.parametrize(
    ("before", "ahead", "seconds"),
    [(None, 1e9, None), (1e9, 1e9 + 4, None), (1e9, 1e9 + 3600, 3600), (1e9, 1e9 - 60, -60)],
)
def test_a_clock_that_is_set_is_told(
    before: float | None, ahead: float, seconds: float | None
) -> None:
    told = story.of_clock(before, ahead)
    assert [event["seconds"] for event in told] == ([] if seconds is None else [seconds])


def test_the_end_is_remembered_for_this_definition_only() -> None:
    memory = status.remember(STARTED, Order("succeeded", 2, "def", "id"), "def")
    assert memory.ended == "succeeded"
    told: dict[str, Any] = {"reason": "", "problems": [], "dropped": 0, "peers": None}
    shown = status.compose(config.parse(PUBLIC, {}), memory, **told)
    definition = shown["definition"]
    assert status.Memory.from_json(shown, definition) == memory
    assert status.Memory.from_json(shown, "another").ended == ""


def test_processes_are_found_by_what_they_were_given(tmp_path: Path) -> None:
    for pid, content in (("5", b"A=1\0B=2\0"), ("6", b"A=1\0B=3\0"), ("7", b"XA=1\0B=2")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_bytes(content)
        (tmp_path / pid / "status").write_text("Name:\tx\nUid:\t1000\t1000\t1000\t1000\n")
    (tmp_path / "8").mkdir()
    (tmp_path / "8/environ").write_bytes(b"A=1\0B=2\0")
    (tmp_path / "8/status").write_text("Name:\tx\nUid:\t1000\t0\t0\t0\n")
    assert processes.marked({"A": "1", "B": "2"}, 1000, tmp_path) == {5}


def test_a_process_is_named_by_pid_and_start() -> None:
    assert processes.start_time(os.getpid()) == processes.start_time(os.getpid()) is not None
    assert os.getpid() in processes.descendants(os.getppid())


@pytest.mark.parametrize(("name", "number"), [("SIGTERM", 15), ("TERM", 15), ("2", 2)])
def test_signals_by_name(name: str, number: int) -> None:
    assert processes.signal_number(name) == number


def with_sets(tmp_path: Path, **more: Any) -> tuple[Path, Path]:
    """Write a definition that names a set, and a program that hands secrets out."""
    (tmp_path / "own.env").write_text('A="1"\n')
    program = tmp_path / "program.py"
    program.write_text("import sys; print('{\"A\": \"%s\"}' % ' '.join(sys.argv[1:]))")
    paths = {"secrets": str(tmp_path), "secrets_program": str(program)}
    path = tmp_path / "demo.json"
    path.write_text(json.dumps({**PUBLIC, "secrets": ["own"], "paths": paths, **more}))
    return path, program


def test_secrets_of_sets_come_from_the_program(tmp_path: Path) -> None:
    path, program = with_sets(tmp_path)
    keeper = secrets.Keeper(config.load(path))
    assert keeper.obstacle() == ""
    assert keeper.take() == {"A": "json --user alice own"}
    program.write_text("import sys; sys.exit('no set own here')")
    with pytest.raises(secrets.CannotGet, match="no set own here"):
        keeper.take()
    again = secrets.Keeper(config.load(path))
    assert again.obstacle() == "no set own here"
    program.unlink()
    # Google is not asked anew at every look.
    assert again.obstacle() == "no set own here"
    assert "declare them in env_secrets_sets" in secrets.Keeper(config.load(path)).obstacle()


@pytest.mark.parametrize("asked", [True, False])
def test_changed_secrets_restart_only_who_asked(asked: bool, tmp_path: Path) -> None:
    path, _program = with_sets(tmp_path, restart_on_secret_change=asked)
    before = config.load(path)
    keeper = secrets.Keeper(before)
    assert not keeper.changed()
    (tmp_path / "new").write_text('A="2"\n')
    (tmp_path / "new").replace(tmp_path / "own.env")
    assert keeper.changed() is asked
    assert (config.load(path).definition != before.definition) is asked


def test_guesses_at_what_is_secret_are_expensive() -> None:
    shown = config.definition_of(PUBLIC, {"PASSWORD": "hunter2"})
    guesses = [
        json.dumps(
            [{k: v for k, v in PUBLIC.items() if k not in hidden}, {"PASSWORD": "hunter2"}],
            sort_keys=True,
            separators=(",", ":"),
        )
        for hidden in ((), ("worker", "hosts", "workdir"))
    ]
    assert shown not in {hashlib.sha256(guess.encode()).hexdigest()[:12] for guess in guesses}
    assert shown == config.definition_of(PUBLIC, {"PASSWORD": "hunter2"})


def test_a_run_of_the_same_definition_keeps_its_code() -> None:
    told = {"definition": "d", "workdir": "/code/.releases/one", "attempt": 2}
    assert status.Memory.from_json(told, "d").workdir == "/code/.releases/one"
    assert status.Memory.from_json(told, "another").workdir == ""


def test_a_process_names_itself_in_any_bytes(host: Path) -> None:
    (host / "proc/77/fd/5").symlink_to("/dev/accel0")
    (host / "proc/77/comm").write_bytes(b"\xff\n")
    assert devices.obstacle(host).startswith("/dev/accel0 is held by process 77 (\ufffd) of ")


def test_of_other_users_processes_no_environment_is_read(tmp_path: Path) -> None:
    """A pipe in the place of an environment would block every process that opens it."""
    for pid, uid in (("5", 1000), ("6", 1001)):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (tmp_path / "5/environ").write_bytes(b"A=1\0")
    os.mkfifo(tmp_path / "6/environ")
    found: list[set[int]] = []
    look = threading.Thread(
        target=lambda: found.append(processes.marked({"A": "1"}, 1000, tmp_path)), daemon=True
    )
    look.start()
    look.join(20)
    assert found == [{5}]


def test_of_an_environment_and_a_command_without_end_a_part_is_read(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    (tmp_path / "5/status").write_text("Name:\tx\nUid:\t1000\t1000\t1000\t1000\n")
    for name in ("environ", "cmdline"):
        with (tmp_path / "5" / name).open("wb") as stream:
            stream.write(b"A=1\0")
            stream.truncate(2**40)
    assert processes.marked({"A": "1"}, 1000, tmp_path) == {5}
    assert processes.command_line(5, tmp_path).startswith("A=1")


@pytest.mark.parametrize("kind", ["without end", "pipe", "link", "folder", "bytes"])
def test_a_set_that_its_owner_made_odd_ends_no_agent(kind: str, tmp_path: Path) -> None:
    path, _program = with_sets(tmp_path, restart_on_secret_change=True)
    before = config.load(path).definition
    own = tmp_path / "own.env"
    own.unlink()
    if kind == "without end":
        with own.open("wb") as stream:
            stream.truncate(2**40)
    elif kind == "pipe":
        os.mkfifo(own)
    elif kind == "link":
        own.symlink_to(path)
    elif kind == "folder":
        own.mkdir()
    else:
        own.write_bytes(b"A=\xff\n")
    found: list[str] = []
    look = threading.Thread(target=lambda: found.append(config.load(path).definition), daemon=True)
    look.start()
    look.join(20)
    assert len(found) == 1
    assert found[0] != before
