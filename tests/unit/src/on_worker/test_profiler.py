"""A profile of processes on a worker: with the hook, and a few lines in the place of JAX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tpu_fleet.on_worker.profiler import HOOK, SIGNAL, Processes, Recording, remove
from tpu_fleet.workers.ask.worker_program import profile_command

ROOT = Path(__file__).resolve().parents[4]
FILES = ROOT / "roles/training_run/files"
RECORDER = (
    "import sys; from tpu_fleet.on_worker import limits, profiler; limits.begin(); "
    "sys.exit(profiler.main(sys.argv[1]))"
)
# It notes what it is asked for in the file that becomes the profile.
PROFILER = """
import os, time
begun = []
def start_trace(folder):
    if begun:
        raise RuntimeError("Profile has already been started.")
    begun.append(folder)
def stop_trace():
    place = os.path.join(begun.pop(), "plugins/profile/now")
    os.makedirs(place)
    if "LINK" in os.environ:
        return os.symlink(os.environ["LINK"], os.path.join(place, "host.xplane.pb"))
    with open(os.path.join(place, "host.xplane.pb"), "wb") as stream:
        stream.write(b"x" * int(os.environ.get("SIZE", "9")))
"""
COMPUTES = "import hashlib; print('ready', flush=True); hashlib.pbkdf2_hmac('md5', b'', b'', 10**9)"
WAITS = "import time; print('ready', flush=True); time.sleep(100)"
USES_JAX = "import jax; jax._src.xla_bridge._backends['cpu'] = 1; "


class Worker:
    """A machine on which a run runs, as far as its files go."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.memory = root / "run/tpu-fleet/runs/digits/user"
        self.log = root / "var/log/tpu-fleet/runs/digits"
        self.state = root / "var/lib/tpu-fleet/runs/digits"
        for folder in (self.memory, self.log, self.state):
            folder.mkdir(parents=True)
        (root / "proc").symlink_to("/proc")
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.status = {"run": "digits", "state": "running", "boot_id": boot_id, "serial": 1}
        self.write(self.status)
        self.modules = root / "modules"
        self._make_jax()
        self.programs: list[subprocess.Popen[str]] = []

    def write(self, status: dict[str, Any]) -> None:
        (self.state / "status.json").write_text(json.dumps(status))

    def _make_jax(self) -> None:
        (self.modules / "jax/_src").mkdir(parents=True)
        bridge = "from jax import profiler\nimport jax._src.xla_bridge\n__version__ = '0.12.0'\n"
        (self.modules / "jax/__init__.py").write_text(bridge)
        (self.modules / "jax/profiler.py").write_text(PROFILER)
        (self.modules / "jax/_src/__init__.py").write_text("")
        (self.modules / "jax/_src/xla_bridge.py").write_text("_backends = {}\n")

    def start(
        self,
        code: str,
        hook: Path = FILES / "python_hook",
        interpreter: str = sys.executable,
        **more: str,
    ) -> int:
        """Start a program of the run, and wait until it says that it is ready."""
        marks = {
            "TPU_FLEET_RUN": "digits",
            "TPU_FLEET_PROGRESS": str(self.memory / "progress.json"),
            "TPU_FLEET_STACKS": str(self.memory / "stacks.txt"),
            "PYTHONPATH": f"{hook}:{self.modules}",
        }
        environment = {"PATH": os.environ["PATH"], **marks, **more}
        process = subprocess.Popen(
            [interpreter, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        self.programs.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process.pid

    def step(self, step: int) -> None:
        (self.memory / "progress.json").write_text(json.dumps({"step": step}))

    def ask(self, most: int = 1 << 20, begin: Callable[[], float] = time.time) -> list[Any]:
        """Return the pieces of the answer, with the bytes that follow one as the next."""
        order = json.dumps({"run": "digits", "seconds": 0.2, "most_bytes": most})
        process = subprocess.Popen(
            [sys.executable, "-c", RECORDER, str(self.root), order],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"tpu-fleet-run-reader\n"
        found: list[Any] = []
        while not found or found[-1] != {"end": True}:
            piece = json.loads(process.stdout.readline())
            if "ready" in piece:
                process.stdin.write(f"{begin():.3f}\n".encode())
                process.stdin.flush()
            if piece:
                found.append(piece)
            if "bytes" in piece:
                found.append(process.stdout.read(piece["bytes"]))
        process.stdin.close()
        assert process.wait(10) == 0
        return found

    def left(self) -> list[str]:
        """Return what is left of a profile."""
        return [path.name for place in (self.memory, self.log) for path in place.glob("profile/*")]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path)
    yield made
    for process in made.programs:
        process.kill()
        process.wait()


def lives(worker: Worker) -> bool:
    return all(process.poll() is None for process in worker.programs)


def test_a_program_whose_main_thread_is_in_c_code_is_recorded_and_goes_on(worker: Worker) -> None:
    pid = worker.start(USES_JAX + COMPUTES)
    worker.step(812)
    begins = time.time()
    ready, about, piece, data, _end = worker.ask()
    assert [one["pid"] for one in ready["ready"]] == [pid]
    assert (about["pid"], about["size"], about["framework"]) == (pid, 9, "jax 0.12.0")
    assert (about["first_step"], about["last_step"]) == (812, 812)
    assert begins <= about["begun"] < about["ended"]
    assert about["ended"] - about["begun"] >= 0.2
    assert (piece["bytes"], data) == (9, b"x" * 9)
    assert lives(worker)
    assert worker.left() == []


def test_all_begin_at_the_moment_and_not_before(worker: Worker) -> None:
    for _number in range(2):
        worker.start(USES_JAX + WAITS)
    moment = time.time() + 2.0
    pieces = worker.ask(begin=lambda: moment)
    begun = [one["begun"] for one in pieces if isinstance(one, dict) and "begun" in one]
    assert len(begun) == 2
    # The line says it to a thousandth.
    assert all(one - moment > -0.001 for one in begun)


def test_the_generators_that_ran_are_named(worker: Worker) -> None:
    batches = "import time\ndef batches():\n    while True:\n        yield time.sleep(0.01)\n"
    (worker.modules / "data.py").write_text(batches)
    loop = "import data; print('ready', flush=True)\nfor one in data.batches(): pass"
    worker.start(USES_JAX + loop)
    assert worker.ask()[1]["iterators"] == ["data.py:2 batches"]


def test_a_program_without_jax_is_never_signalled(worker: Worker) -> None:
    worker.start(WAITS)
    (refused, _end) = worker.ask()
    assert refused["refused"].startswith("none of its processes has imported JAX or torch_xla")
    assert lives(worker)


def test_a_program_that_began_without_the_hook_is_never_signalled(worker: Worker) -> None:
    worker.start(USES_JAX + WAITS, hook=worker.root)
    (refused, _end) = worker.ask()
    assert refused["refused"].startswith("its attempt began before this version")
    assert "tpu-fleet retry digits" in refused["refused"]
    assert lives(worker)


def test_a_program_that_is_no_python_and_catches_the_signal_is_not_asked(worker: Worker) -> None:
    worker.start(
        f"trap : {SIGNAL}; echo ready; while :; do sleep 0.2; done", interpreter="/bin/bash"
    )
    (refused, _end) = worker.ask()
    assert refused["refused"].startswith("none of its processes has imported JAX")


def test_no_process_and_a_run_that_does_not_run(worker: Worker) -> None:
    assert worker.ask()[0]["refused"] == "no process of its program is there now"
    worker.write({**worker.status, "state": "failed"})
    assert worker.ask()[0]["refused"].startswith("digits is failed here")


def test_a_forked_child_is_not_asked(worker: Worker) -> None:
    code = "import os; os.fork() or (print('ready', flush=True), __import__('time').sleep(100)); "
    pid = worker.start(USES_JAX + code + "import time; time.sleep(100)")
    pieces = worker.ask()
    assert [one["pid"] for one in pieces[0]["ready"]] == [pid]
    assert pieces[1]["size"] == 9


@pytest.mark.parametrize(
    ("code", "more", "says"),
    [
        ("import jax; ", {}, "jax 0.12.0 has used no device yet"),
        # To ask for a device would have taken the chips from the process that trains.
        ("import jax; del jax._src.xla_bridge._backends; ", {}, "jax 0.12.0 is too old"),
        (USES_JAX + "del jax.profiler.start_trace; ", {}, "jax 0.12.0 has no profiler"),
        (USES_JAX + "jax.profiler.start_trace('/'); ", {}, "RuntimeError: Profile has already"),
        (USES_JAX, {"SIZE": "2000"}, "its profile has 2000 bytes, and 1000 at most are taken"),
        (USES_JAX + "jax.profiler.stop_trace = list; ", {}, "its profiler wrote no profile"),
    ],
)
def test_what_is_in_the_way_is_said(
    worker: Worker, code: str, more: dict[str, str], says: str
) -> None:
    pid = worker.start(code + WAITS, **more)
    _ready, about, _end = worker.ask(most=1000)
    assert about["pid"] == pid
    assert about["says"].startswith(says), about
    assert lives(worker)
    assert worker.left() == []


def test_a_full_disk_is_said_before_anything_is_recorded(worker: Worker) -> None:
    worker.start(USES_JAX + WAITS)
    refused, _end = worker.ask(most=1 << 60)
    assert "MiB free, and a profile may need" in refused["refused"]
    assert worker.left() == []


def test_a_process_that_ends_meanwhile_is_said(worker: Worker) -> None:
    worker.start(USES_JAX + WAITS)

    def begin() -> float:
        worker.programs[0].kill()
        return time.time() + 30

    _ready, about, _end = worker.ask(begin=begin)
    assert about["says"] == "it ended meanwhile"


def test_the_users_links_lead_nowhere(worker: Worker, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "weights").write_text("all")
    (worker.log / "profile").symlink_to(precious)
    (worker.memory / "profile").symlink_to(precious)
    worker.start(USES_JAX + WAITS)
    assert worker.ask()[1]["size"] == 9
    assert (precious / "weights").read_text() == "all"
    assert list(precious.iterdir()) == [precious / "weights"]


def test_a_link_in_the_place_of_a_profile_is_not_read(worker: Worker, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of others")
    worker.start(USES_JAX + WAITS, LINK=str(secret))
    assert worker.ask()[1]["says"].startswith("its profile cannot be read")


def test_a_second_profile_at_a_time_is_refused(worker: Worker) -> None:
    worker.start(USES_JAX + WAITS)
    order = {"run": "digits", "seconds": 0.2, "most_bytes": 1}
    recording = Recording(order, worker.root)
    with recording.folders():
        assert worker.ask()[0]["refused"] == "another profile of it is being recorded"
        assert recording.requests.is_dir()


def test_what_is_removed_is_the_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "file").write_text("")
    for name in ("link", "file", "none"):
        remove(tmp_path / name)
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_the_hook_and_the_recorder_mean_the_same() -> None:
    text = (FILES / "python_hook/tpu_fleet_profile.py").read_text()
    assert f"SIGNAL = {SIGNAL} " in text
    assert (FILES / HOOK.decode().lstrip("/")).is_dir()
    assert not Processes(Path("/proc")).catches(os.getpid())


@pytest.mark.parametrize(("login", "sudo"), [("alice", False), ("admin", True)])
def test_the_runs_user_needs_no_sudo(login: str, sudo: bool) -> None:
    class Target:
        user = login

    command = profile_command({"run": "digits"}, "alice")(Target())  # type: ignore[arg-type]
    assert command.startswith("exec sudo -n -u alice ") is sudo
