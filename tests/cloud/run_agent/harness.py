"""Two run agents as ordinary processes on loopback addresses, each with folders of its own."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from run_definition import USUAL
from waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "roles/training_run/files/tpu_fleet_run.py"
HOSTS = ("127.0.0.2", "127.0.0.3")
# A worker that is not heard of for `lost` seconds ends the attempt: as long as a busy computer may
# keep an agent from running, where a test is not about just that.
KEY = "ab" * 32
# Most of what these tests compute is what agents look at in each tick.
TIMING = {"tick": 0.2, "lost": 20.0, "restart_delay": 0.1}
SOON_LOST = {**TIMING, "lost": 10.0}


class Worker:
    """One simulated worker."""

    def __init__(self, base: Path, index: int, definition: dict[str, Any]) -> None:
        self.folder = base / f"w{index}"
        self.index = index
        self.tmux = self.folder / "t"  # short: socket paths have a limit
        self.tmux.mkdir(parents=True)
        self.definition = self.folder / "runs" / f"{definition['run']}.json"
        self.definition.parent.mkdir()
        self.run = definition["run"]
        self.process: subprocess.Popen[bytes] | None = None
        self.given = definition
        self.define(definition)

    def define(self, definition: dict[str, Any], env: dict[str, str] | None = None) -> None:
        """Write what the role would write; a path that is None is left out."""
        own = dict(
            {**USUAL, **definition},
            worker=self.index,
            user=pwd.getpwuid(os.getuid()).pw_name,
            workdir=str(self.folder),
            paths={
                name: path
                for name, path in {**self._places(), **definition.get("paths", {})}.items()
                if path is not None
            },
        )
        Path(own["paths"]["root"], "tmp").mkdir(parents=True, exist_ok=True)
        self.definition.write_text(json.dumps(own))
        self.definition.with_suffix(".env.json").write_text(json.dumps(env or {}))
        if len(own["hosts"]) > 1:
            self.definition.with_suffix(".key").write_text(KEY + "\n")

    def _places(self) -> dict[str, str]:
        """Return where this worker's agent has what a machine has in its own folders."""
        return {
            "state": str(self.folder / "state"),
            "runtime": str(self.folder / "r"),
            "log": str(self.folder / "log" / "run.log"),
            "queue": str(self.folder.parent / f"queue{self.index}"),
            "records": str(self.folder / "records"),
            "cache": str(self.folder / "cache"),
            "root": str(self.folder / "no-chips"),
        }

    def up(self) -> None:
        """Start the agent, as a boot or systemd does."""
        arguments = [sys.executable, str(SCRIPT), "agent", "--definition", str(self.definition)]
        with (self.folder / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                arguments, env=dict(os.environ, TMUX_TMPDIR=str(self.tmux)), stdout=log, stderr=log
            )

    def send(self, number: int) -> None:
        """Signal the agent."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill_agent(self) -> None:
        """Take the agent away without a word."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stop as `systemctl stop` does."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)

    def reboot(self) -> None:
        """Lose all processes and what is in memory, as a machine that loses its power does."""
        self.kill_agent()
        status = self.status()
        for pid in (status.get("parent"), status.get("pid")):
            if pid and alive(pid):
                os.kill(pid, signal.SIGKILL)
        if status.get("pid"):
            wait_until(lambda: not alive(status["pid"]), "the program's end")
        self.kill_tmux()
        shutil.rmtree(self.folder / "r", ignore_errors=True)
        # The kernel's boot id cannot be changed here, so what was noted of it is.
        for name in ("status.json", "gang.json"):
            path = self.folder / "state" / name
            if path.exists():
                data = json.loads(path.read_text())
                if "boot_id" in data:
                    data["boot_id"] = "the boot before"
                if str(self.index) in data.get("boots", {}):
                    data["boots"][str(self.index)] = "the boot before"
                path.write_text(json.dumps(data))

    def kill_tmux(self) -> None:
        """End this worker's tmux server and all in it."""
        subprocess.run(
            ["tmux", "kill-server"],
            env=dict(os.environ, TMUX_TMPDIR=str(self.tmux)),
            stderr=subprocess.DEVNULL,
            check=False,
        )

    def kill_tmux_hard(self) -> None:
        """Take the tmux server away without a word."""
        asked = ["tmux", "display-message", "-p", "-t", f"={self.run}:", "#{pid}"]
        env = dict(os.environ, TMUX_TMPDIR=str(self.tmux))
        pid = subprocess.run(asked, env=env, capture_output=True, text=True, check=True).stdout
        os.kill(int(pid), signal.SIGKILL)

    def sessions(self) -> list[str]:
        """Return the names of the tmux sessions."""
        done = subprocess.run(
            ["tmux", "list-sessions", "-F", "#{session_name}"],
            env=dict(os.environ, TMUX_TMPDIR=str(self.tmux)),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.split()

    def status(self) -> dict[str, Any]:
        """Return the status file."""
        path = self.folder / "state" / "status.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def log(self) -> str:
        """Return the run's log."""
        path = self.folder / "log" / "run.log"
        return path.read_text() if path.exists() else ""

    def events(self, *names: str) -> list[dict[str, Any]]:
        """Return the event log, or the events of some names."""
        path = self.folder / "log" / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [event for event in found if not names or event["event"] in names]

    def wait_event(self, name: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait for an event; return the first of its name."""
        found = wait_until(lambda: self.events(name), f"worker {self.index}: event {name}", seconds)
        return dict(found[0])

    def wait(self, seconds: float = PATIENCE, **wanted: Any) -> dict[str, Any]:
        """Wait until the status has these values."""

        def look() -> dict[str, Any] | None:
            status = self.status()
            return status if all(status.get(k) == v for k, v in wanted.items()) else None

        return dict(self._wait_until(look, str(wanted), seconds))

    def _wait_until(self, look: Callable[[], Any], what: str, seconds: float) -> Any:
        try:
            return wait_until(look, f"worker {self.index}: {what}", seconds)
        except AssertionError as error:
            log = (self.folder / "agent.log").read_text()
            raise AssertionError(f"{error}; now {self.status()}; agent: {log}") from None

    def wait_running(self, attempt: int, seconds: float = PATIENCE) -> int:
        """Wait until an attempt's program is there; return its pid."""
        self.wait(seconds, state="running", attempt=attempt)
        return int(self._wait_until(lambda: self.status().get("pid"), "a pid", seconds))


def alive(pid: int) -> bool:
    """Say whether a process lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def program_of(pid: int) -> str:
    """Return the name of what a process runs: a shell's until what it gave way to is there."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def clean_up(workers: list[Worker]) -> None:
    """Leave nothing behind."""
    for worker in workers:
        if worker.process is not None and worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()
        worker.kill_tmux()
        pid = worker.status().get("pid")
        if worker.status().get("program") == "running" and pid and alive(pid):
            os.kill(pid, signal.SIGKILL)
