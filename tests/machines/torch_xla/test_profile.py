"""A profile of a program of torch_xla: its server is there for that time only."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from fleet import wait_until

from tpu_fleet.on_worker.listeners import listeners, tables
from tpu_fleet.on_worker.profiler import SIGNAL, Processes
from tpu_fleet.workers.profile.figures import shares
from tpu_fleet.workers.profile.trace import read

HOOK = Path(__file__).resolve().parents[3] / "roles/training_run/files/python_hook"
PROGRAM = Path(__file__).with_name("profiled.py")


def text_of(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def test_torch_xla_records_itself_and_goes_on(python: str, tmp_path: Path) -> None:
    progress, requests = tmp_path / "progress.json", tmp_path / "profile"
    requests.mkdir()
    environment = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "PYTHONPATH": str(HOOK),
        "TPU_FLEET_PROGRESS": str(progress),
        "TPU_FLEET_STACKS": str(tmp_path / "stacks.txt"),
    }
    process = subprocess.Popen([python, str(PROGRAM)], env=environment)
    try:
        pid = process.pid
        wait_until("steps", lambda: text_of(progress).get("step", 0) > 20, 120)
        assert Processes(Path("/proc")).catches(pid)
        before = ports_of(pid)
        target = tmp_path / "host.xplane.pb"
        asked = {"begin": time.time() + 1, "seconds": 2, "most_bytes": 1 << 28}
        (requests / f"{pid}.asked").write_text(json.dumps({**asked, "target": str(target)}))
        os.kill(pid, SIGNAL)
        told = requests / f"{pid}.told"
        wait_until("a profile", lambda: text_of(told).get("state") in ("done", "failed"), 60)
        said = text_of(told)
        assert said["state"] == "done", said
        assert said["framework"].startswith("torch_xla ")
        assert said["last_step"] > said["first_step"] + 5
        trace = read(target)
        found = shares(trace)
        assert found is not None
        assert 0 < found.idle < 1
        assert {one.name for one in trace.loop} >= {"SyncTensorsGraph"}
        assert ports_of(pid) == before
        last = text_of(progress)["step"]
        wait_until("more steps", lambda: text_of(progress)["step"] > last + 20, 60)
    finally:
        process.kill()
        process.wait()


def ports_of(pid: int) -> set[int]:
    """Return the ports on which a process listens."""
    descriptors = Path(f"/proc/{pid}/fd").iterdir()
    sockets = {os.readlink(one) for one in descriptors if one.is_symlink()}  # noqa: PTH115 - no path
    return {one.port for one in listeners(tables()) if f"socket:[{one.inode}]" in sockets}
