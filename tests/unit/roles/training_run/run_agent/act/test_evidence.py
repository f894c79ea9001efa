"""What a worker shows of a run is what the controller reads."""

from __future__ import annotations

import json
import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import monitoring_port
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._evidence import bounds
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import (
    Frame,
    evidence_of,
)
from run_agent.act import chip_monitor, environment, evidence, hand
from run_agent.decide import config
from run_definition import USUAL

PROGRAM = """
import json, os, socket, threading, time
def read_ahead(stream):
    stream.recv(1)
def train():
    while True:
        time.sleep(1000)
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
threading.Thread(target=read_ahead, args=(client,), daemon=True).start()
with open(os.environ["TPU_FLEET_PROGRESS"], "w") as out:
    json.dump({"step": 7}, out)
print(server.getsockname()[1], flush=True)
train()
"""
LOG = b"""step 6
--- tpu-fleet 2026-01-01T00:00:00Z attempt 2 of train begins on worker 0
\x1b[31mTraceback (most recent call last):\r
  File "train.py", line 3, in <module>\r
    raise ValueError("no data")\r
ValueError: no data\r
still here
"""


@pytest.fixture
def run(tmp_path: Path) -> config.Config:
    """Return a run of this user, in its second attempt."""
    public = {**USUAL, **dict.fromkeys(("command", "workdir"), "")}
    public.update(run="train", user=pwd.getpwuid(os.geteuid()).pw_name, timing={"lost": 20})
    public.update(hosts=["127.0.0.1", "127.0.0.2"], worker=0)
    public.update(port=1, peer_port=1, coordinator_port=2)
    names = ("log", "runtime", "state", "root")
    paths = {name: str(tmp_path / name / ("run.log" if name == "log" else "")) for name in names}
    made = config.parse({**public, "paths": paths}, {})
    for folder in (made.paths.user, made.paths.log.parent, made.paths.state, made.paths.root):
        folder.mkdir(parents=True)
    made.paths.log.write_bytes(LOG)
    status = {"attempt": 2, "state": "running", "program": "running", "step": 5, "first_step": 0}
    now = time.time()
    status.update(first_step_at=now - 10, step_at=now - 5, start=now - 20)
    (made.paths.state / "status.json").write_text(json.dumps(status))
    return made


@pytest.fixture
def program(run: config.Config) -> Iterator[tuple[int, int]]:
    """Start the program; yield its number and a port on which it listens."""
    env = environment.of_program(run, "train-1", 2, {"PATH": "/usr/bin:/bin"})
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=-1) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.kill()


def test_all_of_it_is_read_by_the_controller(run: config.Config, program: tuple[int, int]) -> None:
    me = hand.Hand(run.user)
    sent = evidence.gather(run, me)
    found = evidence_of("w", json.loads(json.dumps(sent.evidence)))
    (process,) = found.processes
    by_name = {frame.function: one for one in process.threads for frame in one.python or ()}
    assert (process.pid, process.stacks_by) == (program[0], "faulthandler")
    assert by_name["read_ahead"].on == f"127.0.0.1:{program[1]} ESTABLISHED"
    assert by_name["train"].tid == program[0]
    assert by_name["train"].python[0] == Frame("train", "<string>", 7)
    assert process.cpu_s_recent is not None
    assert process.looked_s is not None
    assert process.cpu_s_recent < process.looked_s
    assert found.error is not None
    assert (len(found.error), found.error[-1]) == (4, "ValueError: no data")
    assert (found.run.step, found.run.attempt, found.run.program) == (7, 2, "running")
    assert found.run.step_age_s is not None
    assert found.run.step_age_s < 5
    assert found.run.log_tail[-1] == "still here"
    assert (program[1], program[0], True) in [
        (one.port, one.pid, one.ours) for one in found.ports.listening
    ]
    assert found.versions["python"].startswith("3.")
    assert {one.what for one in found.disk} == {"log", "tmp"}
    assert found.memory is not None
    assert "in read_ahead" in sent.text


def test_the_ports_that_it_needs_of_others_are_tried(run: config.Config) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]
        other = replace(run, worker=1, peer_port=open_port, coordinator_port=9)
        found = evidence_of("w", evidence.gather(other, hand.Hand(run.user)).evidence)
    tried = {one.port: (one.worker, one.result) for one in found.ports.peers}
    assert tried == {open_port: (0, "open"), 9: (0, "refused")}


def hold(run: config.Config, pid: int) -> None:
    """Have a process hold the only chip of a machine."""
    (run.paths.root / f"proc/{pid}/fd").mkdir(parents=True)
    (run.paths.root / "dev").mkdir()
    (run.paths.root / "dev/accel0").touch()
    (run.paths.root / f"proc/{pid}/fd/3").symlink_to("/dev/accel0")


def test_chips_of_another_run_are_of_no_concern_to_one_that_uses_none(
    run: config.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(run, os.getpid())
    monkeypatch.setattr(evidence.chip_monitor, "look", lambda _uids: 1 / 0)
    without = evidence.gather(replace(run, needs_tpu="false"), hand.Hand(run.user)).evidence
    assert (without["chips"], without["monitoring"]) == (None, None)
    waits = evidence.gather(replace(run, needs_tpu="true"), hand.Hand(run.user)).evidence
    assert [one["ours"] for one in waits["chips"]["holders"]] == [False]
    assert waits["monitoring"] is None


def test_what_the_monitoring_port_says(
    run: config.Config, program: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monitoring_port.serving() as port:
        port.fault("core_error", 1, message="HBM error")
        told = chip_monitor.look({os.getuid()}, port.port)
    monkeypatch.setattr(evidence.chip_monitor, "look", lambda uids: told)
    hold(run, program[0])
    found = evidence_of("w", evidence.gather(run, hand.Hand(run.user)).evidence)
    assert found.chips is not None
    assert found.chips.present == 1
    assert found.monitoring is not None
    assert found.monitoring.reached
    assert {core.error for core in found.monitoring.cores} >= {"HBM error"}
    assert len({core.program for core in found.monitoring.cores}) == 1
    assert len(found.monitoring.metrics["duty_cycle_percent"]) > 0


def test_a_run_with_too_many_threads_is_cut_until_it_fits() -> None:
    frames = [["f" * 200, "/" + "d" * 250, 1]] * bounds.FRAMES
    thread = {"tid": 1, "python": frames}
    process = {"pid": 1, "threads": [thread] * 20}
    found = evidence.within_bounds({"processes": [process] * 100})
    assert len(json.dumps(found)) <= bounds.EVIDENCE
    assert len(found["processes"]) == 100
    assert found["processes"][0]["threads"][0]["python"][0] == frames[0]
