"""Stop, start and retry runs of a worker, as root.

The only argument is the request, in JSON:

    {"do": "stop", "runs": [NAME, ...], "by": WHO}    or "start", or "retry"

The answer is that of `run_reader` for a list of all runs. What is refused goes to standard error,
one line for each run; the other runs are done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tpu_fleet.on_worker.run_reader import BEGINNING, listing, send
from tpu_fleet.on_worker.runs import RunFiles

SECONDS = 30.0
"""The time limit of a program that is started here; none waits for a run."""
AGAIN = "/usr/local/bin/tpu-fleet-run"


class Refused(Exception):
    """A run cannot be stopped, started or retried; the message says why."""


class Verbs:
    """What can be done to the runs of a worker."""

    def __init__(self, root: str | Path = "/") -> None:
        self.files = RunFiles(root)
        self.units = Path(root, "etc/systemd/system")

    def stop(self, run: str, by: str) -> None:
        """Write the mark that keeps a run stopped, and let systemd stop its agent."""
        mark = self.files.mark(run)
        if f"ConditionPathExists=!{mark}\n" not in self._unit(run):
            raise Refused("an earlier version set it up: run tpu-fleet apply first")
        if not mark.exists():
            mark.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._write(mark, json.dumps({"by": by[:100], "at": time.time()}))
        # Before this, so that no apply starts it meanwhile. The program gets its time to save.
        self._systemctl("stop", "--no-block", f"tpu-fleet-run@{run}.service")

    def start(self, run: str, _by: str) -> None:
        """Remove the mark, and let systemd start the agent; one that runs is left alone."""
        self._unit(run)
        unit = f"tpu-fleet-run@{run}.service"
        if call("/usr/bin/systemctl", "is-enabled", "--quiet", unit)[0]:
            raise Refused("it has enabled: false; write enabled: true, then run tpu-fleet apply")
        self.files.mark(run).unlink(missing_ok=True)
        call("/usr/bin/systemctl", "reset-failed", unit)
        self._systemctl("start", "--no-block", unit)

    def retry(self, run: str, _by: str) -> None:
        """Let the agent of worker 0 begin another attempt of a run that has ended."""
        if self.files.stopped_by(run):
            raise Refused(f"it is kept stopped; to start it: tpu-fleet start {run}")
        code, said = call(AGAIN, "again", run)
        if code:
            raise Refused(said)

    def _unit(self, run: str) -> str:
        """Return the text of a run's unit; refuse a run that is not declared here."""
        if run not in self.files.declared():
            raise Refused("it is not declared here any more")
        try:
            return (self.units / f"tpu-fleet-run@{run}.service").read_text(encoding="utf-8")
        except OSError as error:
            raise Refused(f"its unit cannot be read: {error.strerror}") from error

    def _systemctl(self, *words: str) -> None:
        code, said = call("/usr/bin/systemctl", *words)
        if code:
            raise Refused(said)

    def _write(self, path: Path, text: str) -> None:
        """Write a file that appears whole, also after a power failure."""
        half = path.with_suffix(".new")
        with half.open("w", encoding="utf-8") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        half.chmod(0o644)
        half.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def call(*words: str) -> tuple[int, str]:
    """Run a program of root's; return its exit code and the last line of its output."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, f"{words[0]}: {error}"
    lines = done.stdout.strip().splitlines()
    return done.returncode, lines[-1] if lines else f"{words[0]} ended with {done.returncode}"


def main() -> int:
    """Carry out the request."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    print(BEGINNING, flush=True)
    verbs = Verbs()
    does = {"stop": verbs.stop, "start": verbs.start, "retry": verbs.retry}[order["do"]]
    refused = []
    for run in order["runs"]:
        try:
            does(run, order["by"])
        except (Refused, OSError) as error:
            refused.append(f"{run}: {error}")
    if refused:
        print("; ".join(refused), file=sys.stderr, flush=True)
    send({}, json.dumps(listing(verbs.files)).encode())
    return 1 if refused else 0
