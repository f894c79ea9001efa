"""The commands of the queue agent; systemd calls `agent`, and role run_queue `leave`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from .act.units import CannotDo, Units
from .decide.settings import Places, Settings
from .lead import claim_of

_UNIT = "tpu-fleet-queue.service"


def main(argv: list[str]) -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="tpu_fleet_queue.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    agent = commands.add_parser("agent", help="serve the queue (systemd starts this)")
    leave = commands.add_parser("leave", help="give the run of this slice back, and take no other")
    for command in (agent, leave):
        command.add_argument("--root", type=Path, default=Path("/"))
    leave.add_argument("--wait", type=float, default=180.0)
    options = parser.parse_args(argv)
    places = Places(options.root)
    if options.command == "leave":
        return _leave(places, options.wait)
    from .agent import look_after

    return look_after(places)


def _leave(places: Places, wait: float) -> int:
    """Wait until the agent has given its run back, and no worker of the slice has it."""
    deadline = time.monotonic() + wait
    while _has_run(places):
        if time.monotonic() > deadline:
            print(f"the run was not given back within {wait:.0f} s", file=sys.stderr)
            return 1
        try:
            pid = Units(Settings.systemctl).main_pid(_UNIT)
        except CannotDo as error:
            print(error, file=sys.stderr)
            return 1
        if not pid:
            print(f"{_UNIT} does not run: start it, so that it gives its run back", file=sys.stderr)
            return 1
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.5)
    return 0


def _has_run(places: Places) -> bool:
    return bool(claim_of(places.state)) or any(places.runs.glob("*.submitted"))
