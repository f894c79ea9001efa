"""What a program of JAX is seen to do with its time, by a module that reports as JAX does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HOOK = Path(__file__).resolve().parents[5] / "roles/training_run/files/python_hook"
JAX = """
import time
now = [1000.0]
time.time = lambda: now[0]
now[0] += 6
"""
MONITORING = """
_durations, _events = [], []
register_event_duration_secs_listener = _durations.append
register_event_listener = _events.append
def duration(event, seconds, **more):
    for heard in _durations: heard(event, seconds, **more)
def event(name, **more):
    for heard in _events: heard(name, **more)
"""
COMPILE = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "jax"
    folder.mkdir()
    (folder / "__init__.py").write_text(JAX)
    (folder / "monitoring.py").write_text(MONITORING)
    return tmp_path


def told(place: Path, program: str) -> dict[str, Any]:
    file = place / "times.json"
    env = {
        **os.environ, "PYTHONPATH": f"{HOOK}:{place}", "TPU_FLEET_TIMES": str(file),
        "TPU_FLEET_STACKS": str(place / "stacks"), "COMPILE": COMPILE,
    }  # fmt: skip
    command = [sys.executable, "-Wignore", "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    assert done.stderr == b""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def test_import_and_compilation(place: Path) -> None:
    found = told(
        place,
        """
import os, time
time.time = lambda: 1000.0
from jax import monitoring, now
monitoring.event("/jax/compilation_cache/cache_hits")
monitoring.event("/jax/else")
now[0] += 25
monitoring.duration("/jax/core/compile/jaxpr_trace_duration", 10, fun_name="f")
now[0] += 5
monitoring.duration(os.environ["COMPILE"], 25)  # has the other in it
monitoring.duration("/jax/else", 50)
""",
    )
    seconds = found["seconds"]
    assert seconds == {"import": 6, "compile": 25, "restore": 0, "save": 0}
    assert (found["programs"], found["hits"]) == (1, 1)


def test_checkpoints_as_long_as_the_program_waits(place: Path) -> None:
    found = told(
        place,
        """
import time
time.time = lambda: 1000.0
from jax import monitoring, now
now[0] += 50
monitoring.duration("/jax/orbax/read/worker/total_duration_secs", 20)
monitoring.duration("/jax/core/compile/backend_compile_duration", 10)
monitoring.duration("/jax/orbax/read/blocking_duration_secs", 30)
monitoring.duration("/jax/orbax/read/total_duration_secs", 30)
now[0] += 20
monitoring.duration("/jax/orbax/write/async/total_duration_secs", 900)
monitoring.duration("/jax/orbax/write/async/blocking_duration_secs", 10)
""",
    )
    assert found["seconds"] == {"import": 6, "compile": 10, "restore": 20, "save": 10}


def test_a_program_without_jax_writes_nothing(place: Path) -> None:
    assert told(place, "import json, decimal") == {}


def test_the_first_process_speaks_until_it_has_ended(place: Path) -> None:
    found = told(
        place,
        """
import os, subprocess, sys
import jax
own = os.getpid()
subprocess.run([sys.executable, "-c", "import jax"], check=True)
if os.fork() == 0:
    from jax import monitoring
    monitoring.duration(os.environ["COMPILE"], 50.0)
    os._exit(0)
os.wait()
assert f'"pid": {own},' in open(os.environ["TPU_FLEET_TIMES"]).read()
""",
    )
    assert found["seconds"]["compile"] == 0
    after = told(place, "import jax")
    assert after["pid"] != found["pid"]


@pytest.mark.parametrize("file", ["monitoring.py", "__init__.py"])
def test_another_jax_is_imported_all_the_same(place: Path, file: str) -> None:
    (place / "jax" / file).write_text("")
    assert "pid" in told(place, "import jax") or file == "monitoring.py"


def test_a_file_that_cannot_be_written_disturbs_no_program(place: Path) -> None:
    (place / "times.json").mkdir()
    program = "import jax.monitoring as m, os; m.duration(os.environ['COMPILE'], 3.0); print(1)"
    env = {
        **os.environ, "PYTHONPATH": f"{HOOK}:{place}", "COMPILE": COMPILE,
        "TPU_FLEET_TIMES": str(place / "times.json"), "TPU_FLEET_STACKS": str(place / "stacks"),
    }  # fmt: skip
    command = [sys.executable, "-Wignore", "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"1\n", b"")
