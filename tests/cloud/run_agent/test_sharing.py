"""Several runs on one TPU, several slices on one checkpoint folder, and notices of maintenance."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
FOR_EVER = "exec sleep 1000"
ME = pwd.getpwuid(os.getuid()).pw_name
TAKEN = f"the TPU is taken: run first of {ME} is first"
TIMING = {**harness.TIMING, "fence": 0.3}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Make what a machine with a chip shows: its device file, and this computer's processes."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/accel0").touch()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "proc").symlink_to("/proc")
    return tmp_path


def with_chip(machine: Path, name: str, command: str) -> dict[str, Any]:
    paths = {"root": str(machine), "queue": str(machine / "queue")}
    command = f"exec 9<{machine}/dev/accel0; {command}"
    return {"command": command, "run": name, "paths": paths, "timing": TIMING}


def test_the_second_run_waits_for_the_first(gang: Make, machine: Path) -> None:
    until_told = "while [ ! -e over ]; do sleep 0.1; done"
    (first,) = gang(workers=1, **with_chip(machine, "first", until_told))
    first.up()
    first.wait_running(attempt=1)
    second = gang(workers=1, **with_chip(machine, "second", FOR_EVER))[-1]
    second.up()
    status = second.wait(state="pending", reason=TAKEN)
    assert (status["queue"]["behind"], status["queue"]["user"]) == ("first", status["user"])
    assert status["queue"]["since"] <= time.time()
    assert second.wait_event("queued")["behind"] == "first"

    # A crash of the first does not give its turn away, nor does the end of its agent.
    pid = first.wait_running(attempt=1)
    os.kill(pid, signal.SIGKILL)
    first.wait_running(attempt=2)
    first.kill_agent()
    first.up()
    first.wait(agent_pid=first.process.pid, state="running")
    assert second.status()["state"] == "pending"

    (first.folder / "over").touch()
    second.wait_running(attempt=1)
    assert second.status()["queue"] is None
    assert first.status()["state"] == "succeeded"
    assert second.wait_event("queue-left")


def test_a_slice_has_one_queue(gang: Make, machine: Path) -> None:
    first = gang(**with_chip(machine, "first", "while [ ! -e over ]; do sleep 0.1; done"))
    for worker in first:
        worker.up()
    for worker in first:
        worker.wait_running(attempt=1)
    second = gang(**with_chip(machine, "second", FOR_EVER))[-2:]
    for worker in second:
        worker.up()
    for worker in second:
        status = worker.wait(state="pending", reason=TAKEN)
        assert status["queue"]["behind"] == "first"
    # One worker of the first is done, the other holds its chip still.
    (first[1].folder / "over").touch()
    harness.wait_until(lambda: first[1].status()["exit_code"] == 0, "the end on one worker")
    time.sleep(1)
    assert {worker.status()["state"] for worker in second} == {"pending"}
    (first[0].folder / "over").touch()
    for worker in second:
        worker.wait_running(attempt=1)
    events = [event["event"] for event in second[0].events()]
    assert events[:3] == ["agent-started", "queued", "queue-left"]
    assert not second[1].events("queued")


def test_who_is_stopped_lets_the_next_one_go_on(gang: Make, machine: Path) -> None:
    (first,) = gang(workers=1, **with_chip(machine, "first", FOR_EVER))
    first.up()
    first.wait_running(attempt=1)
    second = gang(workers=1, **with_chip(machine, "second", FOR_EVER))[-1]
    second.up()
    second.wait_event("queued")
    first.stop()
    second.wait_running(attempt=1)
    first.up()
    assert first.wait(state="restarting", program="exited")["attempt"] == 1
    assert first.wait_event("queued")["behind"] == "second"


def test_a_first_run_without_its_agent_holds_the_chip_all_the_same(
    gang: Make, machine: Path
) -> None:
    (first,) = gang(workers=1, **with_chip(machine, "first", FOR_EVER))
    first.up()
    pid = first.wait_running(attempt=1)
    more = with_chip(machine, "second", FOR_EVER)
    second = gang(workers=1, **{**more, "timing": {**TIMING, "lost": 0.5}})[-1]
    second.up()
    second.wait_event("queued")
    first.kill_agent()
    wanted = f"/dev/accel0 is held by process {pid} "
    harness.wait_until(lambda: wanted in second.status().get("reason", ""), "the reason")
    assert second.status()["state"] == "pending"


def test_a_stray_process_is_named(gang: Make, machine: Path) -> None:
    (worker,) = gang(workers=1, **with_chip(machine, "first", FOR_EVER))
    with subprocess.Popen(
        ["/bin/sh", "-c", f"exec 9<{machine}/dev/accel0; exec sleep 60"]
    ) as stray:
        try:
            # Before, it is a shell, which may not have opened the device yet.
            harness.wait_until(lambda: harness.program_of(stray.pid) == "sleep", "the stray")
            worker.up()
            text = f"/dev/accel0 is held by process {stray.pid} (sleep) of {ME}"
            harness.wait_until(lambda: text in worker.status().get("reason", ""), "the reason")
            assert worker.status()["state"] == "pending"
        finally:
            stray.kill()
    worker.wait_running(attempt=1)


def test_a_run_that_needs_no_tpu_does_not_wait(gang: Make, machine: Path) -> None:
    (first,) = gang(workers=1, **with_chip(machine, "first", FOR_EVER))
    first.up()
    first.wait_running(attempt=1)
    second = gang(workers=1, needs_tpu="false", **with_chip(machine, "second", FOR_EVER))[-1]
    second.up()
    second.wait_running(attempt=1)


def mark_of(folder: Path, run: str = "demo") -> dict[str, Any]:
    return dict(json.loads((folder / f".tpu-fleet-attempt.{run}").read_text()))


@pytest.fixture
def shared() -> Iterator[Path]:
    """Make a folder of which the agent cannot know that it is one machine's alone."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_slice_that_is_made_anew_shuts_the_old_one_out(gang: Make, shared: Path) -> None:
    timing = {**TIMING, "fence": 1.0}
    more = {"checkpoint_dir": str(shared / "ck"), "timing": timing, "workers": 1}
    (old,) = gang(FOR_EVER, **more)
    old.up()
    pid = old.wait_running(attempt=1)
    mark = harness.wait_until(lambda: (shared / "ck").exists() and mark_of(shared / "ck"), "a mark")
    assert (mark["attempt"], mark["run_id"]) == (1, old.status()["run_id"])
    os.kill(pid, signal.SIGKILL)
    pid = old.wait_running(attempt=2)

    # Another machine without a memory, which cannot reach the old one.
    new = gang(FOR_EVER, folder="new", **more)[-1]
    new.up()
    wanted = "attempt 2 may still run elsewhere: it is given time to end"
    harness.wait_until(lambda: wanted in new.status().get("reason", ""), "the wait")
    status = old.wait(state="failed")
    assert not harness.alive(pid)
    assert "attempt 3" in status["reason"]
    assert status["history"][-1]["cause"] == "fenced"
    ended = status["history"][-1]
    assert ended["attempt"] == 2
    assert old.wait_event("fenced")["attempt"] == 2
    new.wait_running(attempt=3)
    # The event is told when the log has the last words too, and that may be later than the start.
    assert new.events("attempt-started")[0]["at"] > ended["end"]
    assert new.status()["run_id"] == old.status()["run_id"]
    assert mark_of(shared / "ck")["attempt"] == 3

    # It stays so when the old one boots again, until a person says otherwise.
    old.reboot()
    old.up()
    old.wait(agent_pid=old.process.pid, state="failed")
    new.stop()
    old.send(signal.SIGUSR1)
    old.wait_running(attempt=4)


def test_a_disk_that_comes_from_a_slice_before_is_taken_over_at_once(
    gang: Make, tmp_path: Path
) -> None:
    mark = {"attempt": 7, "owner": "a slice that is gone", "run_id": "demo-1", "where": "vm-a"}
    (tmp_path / ".tpu-fleet-attempt.demo").write_text(json.dumps(mark))
    more = {"checkpoint_dir": str(tmp_path), "timing": {**TIMING, "fence": 100.0}}
    (worker,) = gang(FOR_EVER, workers=1, **more)
    worker.up()
    worker.wait_running(attempt=8)
    assert worker.status()["run_id"] == "demo-1"


# In CI tests/unit/roles/training_run/run_agent/decide/test_fence_holds.py has who holds a folder.
@pytest.mark.night
def test_two_gangs_of_one_name_on_several_slices_do_not_fight(gang: Make, tmp_path: Path) -> None:
    more = {"checkpoint_dir": str(tmp_path / "ck"), "timing": TIMING, "workers": 1}
    (one,) = gang(FOR_EVER, fence="demo.a", **more)
    two = gang(FOR_EVER, fence="demo.b", folder="two", **more)[-1]
    one.up()
    two.up()
    pids = [worker.wait_running(attempt=1) for worker in (one, two)]
    time.sleep(1.5)
    assert all(harness.alive(pid) for pid in pids)


def test_a_start_waits_for_room_on_the_disk(gang: Make, tmp_path: Path) -> None:
    more = {"checkpoint_dir": str(tmp_path / "ck"), "timing": TIMING}
    (worker,) = gang(FOR_EVER, workers=1, min_free_bytes=2**60, **more)
    worker.up()
    status = harness.wait_until(lambda: worker.status().get("reason") and worker.status(), "")
    harness.wait_until(lambda: "(min_free)" in worker.status()["reason"], "the reason")
    assert status["state"] == "pending"
    assert "(min_free)" in worker.wait_event("disk-low")["what"]
    definition = json.loads(worker.definition.read_text())
    worker.define(dict(definition, min_free_bytes=1))
    worker.send(signal.SIGHUP)
    worker.wait_running(attempt=1)


def test_workers_with_another_environment_do_not_start_together(gang: Make) -> None:
    workers = gang(FOR_EVER, venv="/opt/venvs/jax-of-the-test")
    for worker, freeze in zip(workers, ("aaaa", "bbbb"), strict=True):
        venv = worker.folder / "venv"
        (venv / "bin").mkdir(parents=True)
        definition = json.loads(worker.definition.read_text())
        worker.define(dict(definition, venv="/" + str(workers[0].folder / "venv").lstrip("/")))
        record(worker, workers[0].folder / "venv", freeze)
        worker.up()
    wanted = "worker 1 has environment bbbb, worker 0 has aaaa: apply the fleet file again"
    workers[0].wait(reason=wanted)
    record(workers[1], workers[0].folder / "venv", "aaaa")
    for worker in workers:
        worker.wait_running(attempt=1)


def record(worker: Any, venv: Path, freeze: str) -> None:
    path = worker.folder / "records/venvs/jax.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "jax", "path": str(venv), "freeze": freeze}))


class _Metadata(BaseHTTPRequestHandler):
    upcoming: ClassVar[dict[str, str]] = {}
    event = "NONE"

    def do_GET(self) -> None:
        if self.headers["Metadata-Flavor"] != "Google":
            self.send_error(403)
        elif self.path.endswith("/instance/maintenance-event"):
            self._say(self.event)
        elif "/instance/upcoming-maintenance" in self.path and self.upcoming:
            self._say(json.dumps(self.upcoming))
        else:
            self.send_error(503, "no notifications have been received yet, try again later")

    def _say(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def metadata() -> Iterator[tuple[str, type[_Metadata]]]:
    handler = type("Metadata", (_Metadata,), {"upcoming": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", handler
    server.shutdown()
    server.server_close()


SAVES = (
    f"exec {sys.executable} -uc '"
    "import pathlib, signal, time\n"
    "def save(*_):\n"
    '    with open("saved", "a") as out: out.write("x")\n'
    "signal.signal(signal.SIGUSR1, save)\n"
    'print("ready")\n'
    "while True: time.sleep(1)\n"
    "'"
)


def announce(handler: type[_Metadata], seconds: float) -> str:
    window = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    handler.upcoming = {"window_start_time": window, "maintenance_status": "PENDING"}
    return window


def test_all_save_once_before_a_maintenance(
    gang: Make, metadata: tuple[str, type[_Metadata]]
) -> None:
    url, handler = metadata
    window = announce(handler, 3600)
    timing = {**TIMING, "metadata": 0.2}
    # A child of a shell that has no handler: the shell must not get the signal.
    command = f"({SAVES.removeprefix('exec ')}); true"
    workers = gang(command, checkpoint_signal="SIGUSR1", timing=timing)
    # One of them is told; a checkpoint is made by all.
    definition = json.loads(workers[1].definition.read_text())
    workers[1].define(dict(definition, metadata=url))
    for worker in workers:
        worker.up()
    pids = [worker.wait_running(attempt=1) for worker in workers]
    for worker in workers:  # before it has its handler, it would not be asked
        harness.wait_until(lambda worker=worker: "ready" in worker.log(), "its handler")
    assert workers[1].wait_event("maintenance-announced")["when"] == window
    time.sleep(1)
    assert not workers[1].events("checkpoint-asked")
    later = announce(handler, 60)
    for worker in workers:
        assert later in worker.wait_event("checkpoint-asked")["why"]
        harness.wait_until((worker.folder / "saved").exists, "the checkpoint")
    # One that dies before it has written that it asked, asks again: better twice than not at all.
    harness.wait_until(lambda: later in workers[1].status()["asked"], "its note")
    workers[1].kill_agent()
    workers[1].up()
    time.sleep(2)
    for worker, pid in zip(workers, pids, strict=True):
        assert (worker.folder / "saved").read_text() == "x"
        assert harness.alive(pid)
        assert len(worker.events("checkpoint-asked")) == 1


def test_a_command_asks_when_a_maintenance_begins(
    gang: Make, metadata: tuple[str, type[_Metadata]]
) -> None:
    url, handler = metadata
    timing = {**TIMING, "metadata": 0.2}
    ask = 'echo "$TPU_FLEET_RUN $TPU_FLEET_ATTEMPT" > asked'
    (worker,) = gang(FOR_EVER, workers=1, metadata=url, checkpoint_command=ask, timing=timing)
    worker.up()
    worker.wait_running(attempt=1)
    handler.event = "TERMINATE_ON_HOST_MAINTENANCE"
    harness.wait_until((worker.folder / "asked").exists, "the command")
    harness.wait_until(lambda: (worker.folder / "asked").read_text() == "demo 1\n", "its output")
    # It is told when the command was started, which may be through before.
    assert worker.wait_event("checkpoint-asked")["how"] == "checkpoint_command"
