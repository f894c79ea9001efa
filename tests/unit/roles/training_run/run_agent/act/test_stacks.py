"""Where the Python code of a run's processes stands."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_agent.act import environment, hand, kernel_view, processes, stacks
from run_agent.decide import config
from run_definition import USUAL

PROGRAM = """
import sys, threading, time
def wait_below():
    threading.Event().wait()
def read_ahead():
    open(sys.argv[1]).read()
def train():
    while True:
        time.sleep(1000)
threading.Thread(target=wait_below, daemon=True).start()
threading.Thread(target=read_ahead, daemon=True).start()
print("ready", flush=True)
train()
"""
ME = hand.Hand(pwd.getpwuid(os.geteuid()).pw_name)


def test_only_handlers_are_signalled(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/status").write_text(f"Name:\tx\nSigCgt:\t{1 << (stacks.SIGNAL - 1):016x}\n")
    assert processes.catches(7, stacks.SIGNAL, tmp_path)
    assert not processes.catches(7, 10, tmp_path)
    assert not processes.catches(8, 10, tmp_path)


def test_the_hook_and_the_agent_mean_one_signal() -> None:
    hook = environment.HOOK / "tpu_fleet_hook" / "stacks.py"
    found = re.search(r"^_SIGNAL = (\d+)", hook.read_text(), re.MULTILINE)
    assert found is not None
    assert int(found[1]) == stacks.SIGNAL


@pytest.fixture
def run(tmp_path: Path) -> config.Config:
    """Return a run of this user, whose folders are there."""
    public = {**USUAL, **dict.fromkeys(("command", "workdir"), "")}
    public.update(run="train", user=pwd.getpwuid(os.geteuid()).pw_name)
    public.update(hosts=["h"], worker=0, port=1, peer_port=1, coordinator_port=2)
    names = ("log", "runtime", "state", "root")
    paths = {name: str(tmp_path / name / ("run.log" if name == "log" else "")) for name in names}
    made = config.parse({**public, "paths": paths}, {})
    made.paths.user.mkdir(parents=True)
    made.paths.runtime.chmod(0o711)
    made.paths.log.parent.mkdir()
    made.paths.log.write_text("step 1\n")
    return made


@pytest.fixture
def program(run: config.Config, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program of the run, with a thread that reads from a pipe and one that waits."""
    env = environment.of_program(run, "train-1", 1, {"PATH": "/usr/bin:/bin"})
    os.mkfifo(tmp_path / "shard")
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "shard")]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE) as process:
        writer = os.open(tmp_path / "shard", os.O_WRONLY)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        os.close(writer)
        process.kill()


def test_each_thread_is_found_by_its_number_and_the_log_stays_as_it_was(
    run: config.Config, program: subprocess.Popen[bytes]
) -> None:
    inner: dict[int, list[str]] = {}
    for _look in range(40):  # until the program is where it stays
        begun = time.monotonic()
        found = stacks.said_by(run, ME, [program.pid])[program.pid]
        assert time.monotonic() - begun < 3
        assert found.by == "faulthandler"
        inner = {tid: [frame[0] for frame in frames] for tid, frames in found.threads.items()}
        seen = {name for stack in inner.values() for name in stack}
        if seen >= {"train", "read_ahead", "wait_below"}:
            break
        time.sleep(0.05)
    assert "train" in inner[program.pid]
    (reads,) = [tid for tid, names in inner.items() if "read_ahead" in names]
    (waits,) = [tid for tid, names in inner.items() if "wait_below" in names]
    reading = kernel_view.thread(program.pid, reads)
    assert (reading["syscall"], reading["on"][-5:]) == ("read", "shard")
    assert kernel_view.thread(program.pid, waits)["syscall"] == "futex"
    assert run.paths.log.read_text() == "step 1\n"


def test_what_does_not_answer_is_named(
    run: config.Config, program: subprocess.Popen[bytes]
) -> None:
    os.kill(program.pid, 19)
    while kernel_view.state_of(program.pid) != "T":
        time.sleep(0.01)
    assert stacks.said_by(run, ME, [program.pid])[program.pid].why_not == "it is stopped"
    os.kill(program.pid, 18)
    # A program that has closed the file may have another in its place, which is not to be spoilt.
    run.paths.stacks.rename(run.paths.stacks.with_name("other"))
    found = stacks.said_by(run, ME, [program.pid])[program.pid]
    assert found.why_not == "it does not wait for the signal"
    assert run.paths.stacks.with_name("other").read_text() == ""


def test_a_hook_that_fails_is_no_harm(run: config.Config) -> None:
    env = environment.of_program(run, "train-1", 1, {"PATH": "/usr/bin:/bin"})
    env["TPU_FLEET_STACKS"] = "/no/such/folder"
    done = subprocess.run([sys.executable, "-c", "print(1)"], env=env, capture_output=True)
    assert (done.stdout, done.stderr) == (b"1\n", b"")
