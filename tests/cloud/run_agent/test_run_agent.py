"""What happens to a gang when things die, shown by real processes on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_agent.act import processes

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]

# Counts to 40 in a checkpoint of its own, a step each 50 ms, and says where it began.
COUNTER = (
    f"{sys.executable} -uc '"
    "import os, pathlib, time\n"
    'p = pathlib.Path("count")\n'
    "n = int(p.read_text()) if p.exists() else 0\n"
    'print("attempt", os.environ["TPU_FLEET_ATTEMPT"], "from", n)\n'
    "while n < 40:\n"
    '    n += 1; q = p.with_suffix(".new"); q.write_text(str(n)); q.replace(p); time.sleep(0.05)\n'
    "'"
)
# The same, but the first attempt goes no further than 20: there it stands until it is ended.
HALFWAY = (
    COUNTER.removesuffix("'")
    + '    if n == 20 and os.environ["TPU_FLEET_ATTEMPT"] == "1": time.sleep(1000)\n'
    + "'"
)
FOR_EVER = "exec sleep 1000"


def start(workers: list[Any]) -> None:
    for worker in workers:
        worker.up()


def count(worker: Any) -> str:
    path = worker.folder / "count"
    return path.read_text() if path.exists() else ""


def test_a_run_succeeds_and_stays_so(gang: Make) -> None:
    workers = gang(COUNTER)
    start(workers)
    for worker in workers:
        status = worker.wait(state="succeeded")
        assert (status["attempt"], status["exit_code"]) == (1, 0)
        assert "attempt 1 from 0" in worker.log()
    for worker in workers:
        worker.reboot()
    start(workers)
    for worker in workers:
        worker.wait(agent_pid=worker.process.pid, state="succeeded", attempt=1)
        assert "from 40" not in worker.log()


def test_a_program_that_is_killed_takes_all_to_the_next_attempt(gang: Make) -> None:
    workers = gang(HALFWAY)
    start(workers)
    pids = [worker.wait_running(attempt=1) for worker in workers]
    for worker in workers:
        harness.wait_until(lambda worker=worker: count(worker) == "20", "half of the steps")
    os.kill(pids[1], signal.SIGKILL)
    for worker in workers:
        status = worker.wait(state="succeeded", attempt=2)
        assert count(worker) == "40"
        assert "attempt 2 from" in worker.log()
        assert "attempt 2 from 0" not in worker.log()
        assert not harness.alive(pids[worker.index])
        assert len({w.status()["run_id"] for w in workers}) == 1
        assert len(status["history"]) == 2
    assert workers[1].status()["history"][0]["signal"] == signal.SIGKILL
    assert "signal 9" in workers[0].status()["history"][0]["cause"]


@pytest.mark.parametrize("rebooted", [0, 1])
def test_a_reboot_is_survived_and_does_not_count(gang: Make, rebooted: int) -> None:
    workers = gang(FOR_EVER, retries=0)
    start(workers)
    pids = [worker.wait_running(attempt=1) for worker in workers]
    workers[rebooted].reboot()
    workers[rebooted].up()
    for worker in workers:
        assert worker.wait_running(attempt=2) != pids[worker.index]


def test_a_worker_that_stays_away_stops_the_others(gang: Make) -> None:
    workers = gang(FOR_EVER, retries=0, timing=harness.SOON_LOST)
    start(workers)
    pids = [worker.wait_running(attempt=1) for worker in workers]
    workers[1].reboot()
    status = workers[0].wait(state="restarting", program="exited")
    assert "worker 1 is lost" in status["history"][-1]["cause"]
    assert not harness.alive(pids[0])
    harness.wait_until(lambda: "worker 1 is not there" in workers[0].status()["reason"], "reason")


def test_a_follower_stops_when_the_leader_stays_away(gang: Make) -> None:
    workers = gang(FOR_EVER, timing=harness.SOON_LOST)
    start(workers)
    pids = [worker.wait_running(attempt=1) for worker in workers]
    workers[0].reboot()
    workers[1].wait(state="restarting", program="exited", cause="lost the leader")
    assert not harness.alive(pids[1])


def test_an_agent_that_comes_back_adopts_the_program(gang: Make) -> None:
    timing = {**harness.TIMING, "lost": 10.0}
    workers = gang(FOR_EVER, timing=timing)
    start(workers)
    pids = [worker.wait_running(attempt=1) for worker in workers]
    for worker in workers:
        worker.kill_agent()
        worker.up()
    for worker in workers:
        worker.wait(agent_pid=worker.process.pid, state="running")
        worker.send(signal.SIGHUP)  # and so does one that replaces itself
    time.sleep(timing["lost"] + 2)  # longer than it takes to be lost
    for worker in workers:
        assert worker.process.poll() is None
        assert worker.wait(state="running", attempt=1)["pid"] == pids[worker.index]
        assert harness.alive(pids[worker.index])


def test_a_reload_ends_no_agent_from_when_systemd_may_send_it(
    gang: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (worker,) = gang(FOR_EVER, workers=1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        worker.up()
        systemd.settimeout(harness.PATIENCE)
        assert systemd.recv(4096).startswith(b"READY=1\n")
        # It begins anew again and again, and is asked to at every moment of that.
        for _ in range(200):
            worker.send(signal.SIGHUP)
            time.sleep(0.02)
            assert worker.process.poll() is None
            systemd.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while systemd.recv(4096):
                    pass
    worker.wait_running(attempt=1)


def installed_in(folder: Path) -> Path:
    """Install the agent, as one that leaves a letter whenever it is read; return its script."""
    shutil.copytree(harness.SCRIPT.parent, folder)
    script = folder / harness.SCRIPT.name
    leave = f"import sys\n\nopen({str(folder / 'read')!r}, 'a').write('x')\n"
    script.write_text(script.read_text().replace("import sys\n", leave, 1))
    return script


def belongings(worker: Any) -> tuple[int, int, set[int]]:
    """Return how many threads and open files an agent has, and which processes below it."""
    place = Path(f"/proc/{worker.process.pid}")
    threads, files = (len(list((place / name).iterdir())) for name in ("task", "fd"))
    return threads, files, processes.descendants(worker.process.pid)


def waits_for_the_end(worker: Any) -> bool:
    """Say whether an agent has the handle of its program's end, the last that it opens for good."""
    with contextlib.suppress(FileNotFoundError):  # it opens and closes others meanwhile
        files = Path(f"/proc/{worker.process.pid}/fd").iterdir()
        return any("pidfd" in str(file.readlink()) for file in files)
    return False


def lasting(worker: Any) -> tuple[int, int, set[int]]:
    """Return what an agent keeps: the least of some moments, as a look opens files for a moment."""
    harness.wait_until(lambda: waits_for_the_end(worker), "the wait for the program's end")
    seen = []
    for _ in range(20):
        seen.append(belongings(worker))
        time.sleep(0.03)
    return min(seen, key=lambda one: (*one[:2], len(one[2])))


def test_an_agent_of_the_same_files_takes_over_in_its_process_and_leaves_nothing(
    gang: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = installed_in(tmp_path / "opt")
    monkeypatch.setattr(harness, "SCRIPT", script)
    workers = gang(FOR_EVER)
    start(workers)
    pids = [worker.wait_running(attempt=1) for worker in workers]
    for worker in workers:
        harness.wait_until(worker.log, "the writer of the log")
    read = (tmp_path / "opt" / "read").read_text()

    def reload(count: int) -> None:
        for worker in workers:
            worker.send(signal.SIGHUP)
        for worker in workers:
            harness.wait_until(
                lambda one=worker: len(one.events("agent-started")) == count, "another agent"
            )
            worker.wait(state="running", attempt=1)

    before = [lasting(worker) for worker in workers]
    for number in range(50):
        reload(number + 2)
    for worker, own in zip(workers, before, strict=True):
        harness.wait_until(
            lambda one=worker, own=own: belongings(one) == own, "the end of what was begun"
        )
    assert (tmp_path / "opt" / "read").read_text() == read
    # With other files, as a new version has them, all of it is read again.
    with script.with_name("run_agent").joinpath("agent.py").open("a") as file:
        file.write("\n# Another version.\n")
    reload(52)
    assert len((tmp_path / "opt" / "read").read_text()) == len(read) + 2
    assert [worker.wait_running(attempt=1) for worker in workers] == pids


@pytest.mark.parametrize("trap", ["", "trap '' HUP; "])
def test_without_its_terminal_all_begin_again_and_it_does_not_count(gang: Make, trap: str) -> None:
    # One that ignores the signal would go on unseen, and without a log.
    workers = gang(f"{trap}while :; do sleep 0.2; done", retries=0)
    start(workers)
    pids = [worker.wait_running(attempt=1) for worker in workers]
    workers[1].kill_tmux_hard()
    for worker in workers:
        worker.wait_running(attempt=2)
    assert not any(harness.alive(pid) for pid in pids)
    ended = workers[1].events("attempt-ended")[0]
    assert ended["cause"] == "lost its terminal"
    assert workers[1].sessions() == ["demo"]


def test_an_end_that_no_agent_saw_is_known_later(gang: Make) -> None:
    program = "while [ ! -e over ]; do sleep 0.1; done; exit 3"
    (worker,) = gang(program, workers=1, retries=0)
    worker.up()
    worker.wait_running(attempt=1)
    worker.kill_agent()
    (worker.folder / "over").touch()
    harness.wait_until((worker.folder / "r/user/result.json").exists, "the program's end")
    worker.up()
    assert worker.wait(state="failed")["exit_code"] == 3


def test_a_crash_loop_fails_everywhere(gang: Make) -> None:
    workers = gang('if [ "$TPU_FLEET_WORKER" = 1 ]; then exit 7; fi; exec sleep 100', retries=2)
    start(workers)
    for worker in workers:
        status = worker.wait(state="failed")
        assert status["attempt"] == 3
        assert "worker 1: exit code 7" in status["reason"]
    workers[0].send(signal.SIGUSR1)  # a person asks for one more try
    workers[0].wait(state="failed", attempt=6)


def test_stop_gives_the_program_its_grace(gang: Make) -> None:
    program = (
        'trap "sleep 0.5; echo saved > saved; exit 0" TERM; echo ready; while :; do sleep 0.1; done'
    )
    (worker,) = gang(program, workers=1)
    worker.up()
    worker.wait_running(attempt=1)
    harness.wait_until(lambda: "ready" in worker.log(), "its handler")
    worker.stop()
    assert (worker.folder / "saved").read_text() == "saved\n"
    assert worker.status()["state"] == "stopped"
    worker.up()
    worker.wait_running(attempt=2)


def test_a_deaf_program_is_killed_after_its_grace(gang: Make) -> None:
    program = 'trap "" TERM; echo ready; while :; do sleep 0.1; done'
    (worker,) = gang(program, workers=1, grace_seconds=1)
    worker.up()
    pid = worker.wait_running(attempt=1)
    harness.wait_until(lambda: "ready" in worker.log(), "its deafness")
    worker.stop()
    assert worker.status()["state"] == "stopped"
    assert worker.status()["history"][-1]["signal"] == signal.SIGKILL
    assert not harness.alive(pid)


def test_what_a_program_leaves_behind_is_ended(gang: Make) -> None:
    (worker,) = gang("(setsid sleep 1000 & echo $! > left); sleep 0.3; exit 0", workers=1)
    worker.up()
    worker.wait(state="succeeded")
    left = int((worker.folder / "left").read_text())
    harness.wait_until(lambda: not harness.alive(left), "the end of what was left")


def test_a_changed_definition_restarts_the_run_once_all_have_it(gang: Make) -> None:
    workers = gang(FOR_EVER)
    start(workers)
    pids = [worker.wait_running(attempt=1) for worker in workers]
    for worker in workers:
        definition = harness.json.loads(worker.definition.read_text())
        worker.define(dict(definition, command="exec sleep 2000"))
        worker.send(signal.SIGHUP)
    for worker in workers:
        assert worker.wait_running(attempt=2) != pids[worker.index]


def test_secrets_are_in_the_environment_and_nowhere_else(gang: Make) -> None:
    (worker,) = gang('[ "$TOKEN" = s3cret ] && echo ready && exec sleep 100', workers=1)
    definition = harness.json.loads(worker.definition.read_text())
    worker.define(definition, {"TOKEN": "s3cret"})
    worker.up()
    pid = worker.wait_running(attempt=1)
    harness.wait_until(lambda: "ready" in worker.log(), "its secret")
    # Until then the shell shows the command, and with it the word that it compares with.
    harness.wait_until(lambda: harness.program_of(pid) == "sleep", "the shell's end")
    assert harness.alive(pid)
    for process in harness.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert b"s3cret" not in process.read_bytes()
        except OSError:
            continue
    for path in (worker.folder / "state").iterdir():
        assert "s3cret" not in path.read_text()
    assert "s3cret" not in worker.log()


def test_the_log_rotates_and_the_session_can_be_attached_to(gang: Make) -> None:
    program = "i=0; while [ $i -lt 400 ]; do echo line $i of a log; i=$((i+1)); done; exec sleep 99"
    (worker,) = gang(program, workers=1, log={"bytes": 2000, "files": 2})
    worker.up()
    worker.wait_running(attempt=1)
    assert worker.sessions() == ["demo"]
    harness.wait_until(lambda: "line 399" in worker.log(), "the last line")
    logs = sorted((worker.folder / "log").glob("run.log*"))
    assert [path.name for path in logs] == ["run.log", "run.log.1", "run.log.2"]
    assert all(path.stat().st_size <= 2000 for path in logs)


def test_last_words_are_waited_for_when_the_log_is_late(gang: Make) -> None:
    program = "while [ ! -e over ]; do sleep 0.1; done; echo last words; exit 3"
    (worker,) = gang(program, workers=1, no_retry_exit_codes=[3])
    worker.up()
    worker.wait_running(attempt=1)
    # tmux starts it through a shell, which may not have given way to it yet.
    writer = harness.wait_until(lambda: log_writer(worker), "the log's writer")
    os.kill(writer, signal.SIGSTOP)
    try:
        (worker.folder / "over").touch()
        time.sleep(4)  # as on a host that has no time for it
    finally:
        os.kill(writer, signal.SIGCONT)
    assert "last words" in worker.wait_event("run-failed")["tail"]


def log_writer(worker: Any) -> int | None:
    """Return the process that writes a worker's log, if it is there."""
    wanted = f"\0log\0--file\0{worker.folder / 'log' / 'run.log'}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (process / "cmdline").read_bytes():
                return int(process.name)
    return None


def test_a_full_disk_is_told_and_stops_nothing(gang: Make) -> None:
    (worker,) = gang("while :; do echo hello; sleep 0.05; done", workers=1)
    log = worker.folder / "log"
    log.mkdir()
    (log / "run.log").symlink_to("/dev/full")
    worker.up()
    pid = worker.wait_running(attempt=1)
    status = harness.wait_until(lambda: worker.status().get("problems"), "a report")
    assert "No space left on device" in status[0]
    assert worker.status()["log_dropped_bytes"] > 0
    assert worker.status()["state"] == "running"
    assert harness.alive(pid)


def test_a_session_of_the_users_own_is_not_touched(gang: Make) -> None:
    (worker,) = gang(FOR_EVER, workers=1)
    environment = dict(os.environ, TMUX_TMPDIR=str(worker.tmux))
    own = ["tmux", "new-session", "-d", "-s", "demo", "sleep 100"]
    harness.subprocess.run(own, env=environment, check=True)
    worker.up()
    harness.wait_until(lambda: "of their own" in worker.status().get("reason", ""), "a reason")
    assert worker.status()["state"] == "pending"
    rename = ["tmux", "rename-session", "-t", "=demo", "other"]
    harness.subprocess.run(rename, env=environment, check=True)
    worker.wait_running(attempt=1)
    assert sorted(worker.sessions()) == ["demo", "other"]


def test_strangers_are_refused(gang: Make) -> None:
    workers = gang(FOR_EVER)
    start(workers)
    workers[0].wait_running(attempt=1)
    port = json.loads(workers[0].definition.read_text())["peer_port"]
    stranger = socket.create_connection(("127.0.0.2", port), 60, ("127.0.0.9", 0))
    with stranger, contextlib.suppress(ConnectionResetError):
        assert stranger.recv(1) == b""
    told = "a message from 127.0.0.9 was refused: it is no worker of the gang"
    harness.wait_until(lambda: told in workers[0].status()["problems"], "the problem")
    assert (workers[0].folder / "agent.log").read_text().count(told) == 1


def test_a_program_keeps_the_environment_that_it_began_with(gang: Make, tmp_path: Path) -> None:
    build, link = tmp_path / ".jax-1", tmp_path / "jax"
    link.symlink_to(build)
    [worker] = gang(FOR_EVER, workers=1, venv=str(link))
    worker.up()
    worker.wait(reason=f"worker 0: the environment {link} is not there")
    (build / "bin").mkdir(parents=True)
    pid = worker.wait_running(attempt=1)
    given = Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert f"VIRTUAL_ENV={build}" in given
    assert [word for word in given if word.startswith(f"PATH={build}/bin:")]


def test_a_number_from_before_the_reboot_is_nobodys_parent_now(gang: Make) -> None:
    [worker] = gang(FOR_EVER, workers=1)
    worker.up()
    worker.wait_running(attempt=1)
    worker.reboot()
    # Whoever waits for its child ends with it.
    with subprocess.Popen(["/bin/sh", "-c", "sleep 60; true"]) as other:
        path = worker.folder / "state/status.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "parent": other.pid}))
        worker.up()
        worker.wait_running(attempt=2)
        try:
            assert other.poll() is None
        finally:
            other.kill()


def test_a_port_that_is_taken_is_named(gang: Make) -> None:
    workers = gang(FOR_EVER)
    port = json.loads(workers[0].definition.read_text())["peer_port"]
    with socket.socket() as taken:
        taken.bind((harness.HOSTS[0], port))
        taken.listen()
        start(workers)
        wanted = "Address already in use; give the run another peer_port"
        harness.wait_until(lambda: wanted in workers[0].status().get("reason", ""), "the reason")
    for worker in workers:
        worker.wait_running(attempt=1)
        assert "another peer_port" not in workers[0].status()["reason"]
