"""The commands of the run agent; people need `status` and `again` only."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from .act import installed, processes, store
from .act.definitions import load
from .agent import HEARD, Agent
from .decide.config import Config

_DEFINITIONS = Path("/etc/tpu-fleet/runs")


def main(argv: list[str], program: installed.Stamp = ()) -> int:
    """Run one command; `program` is what the files of the agent were when they were read."""
    parser = argparse.ArgumentParser(prog="tpu-fleet-run", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    agent = commands.add_parser("agent", help="look after a run (systemd starts this)")
    agent.add_argument("--definition", type=Path, required=True)
    for name, text in (
        ("status", "print a run's status on this worker"),
        ("again", "try a run that has ended once more, from its checkpoint"),
        ("check", "wait until the agent has taken up the definition, unless it is kept stopped"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("run", nargs="+" if name == "check" else 1)
        command.add_argument("--definitions", type=Path, default=_DEFINITIONS)
        command.add_argument("--wait", type=float, default=30.0)
    options = parser.parse_args(argv)
    if options.command == "agent":
        return _look_after(options.definition, argv, program)
    return _for_people(options)


def _look_after(definition: Path, argv: list[str], program: installed.Stamp) -> int:
    agent = Agent(definition)
    installed.keep_compiled()
    while agent.run():
        if installed.stamp() == program:
            agent = agent.successor()
        else:
            _begin_again(agent, argv)
    return 0


def _begin_again(agent: Agent, argv: list[str]) -> None:
    """Replace this process by one with the new files; it has the same number."""
    # Without its handlers a signal would end the new agent before it begins.
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    agent.close()
    for number in agent.unheeded():
        signal.raise_signal(number)
    os.execv(sys.executable, [sys.executable, "-I", sys.argv[0], *argv])  # noqa: S606 - our own interpreter, no shell


def _for_people(options: argparse.Namespace) -> int:
    configs = []
    for run in options.run:
        path = options.definitions / f"{run}.json"
        try:
            configs.append(load(path, secrets=options.command == "check"))
        except OSError as error:
            print(f"{path}: {error.strerror}", file=sys.stderr)
            return 2
    if options.command == "check":
        return max(_check(config, options.wait) for config in configs)
    config = configs[0]
    if options.command == "status":
        shown = _status(config)
        print(json.dumps(shown, indent=2, sort_keys=True))
        return 0 if shown else 1
    return _again(config)


def _status(config: Config) -> dict[str, object]:
    return store.status_of(config.paths).load() or {}


def _again(config: Config) -> int:
    if not config.leader:
        print(f"ask on worker 0 ({config.hosts[0]}), which decides for the slice", file=sys.stderr)
        return 2
    pid = processes.agent_of(_status(config))
    if pid is None:
        print(f"no agent looks after {config.run} here", file=sys.stderr)
        return 1
    try:
        os.kill(pid, signal.SIGUSR1)
    except PermissionError:
        print(f"the agent is root's: sudo tpu-fleet-run again {config.run}", file=sys.stderr)
        return 2
    except ProcessLookupError:
        print(f"no agent looks after {config.run} here", file=sys.stderr)
        return 1
    return 0


def _check(config: Config, wait: float) -> int:
    deadline = time.monotonic() + wait
    while True:
        shown = _status(config)
        if processes.agent_of(shown) is not None and shown.get("definition") == config.definition:
            print(json.dumps({key: shown[key] for key in ("state", "attempt", "pid", "reason")}))
            return 0
        if (config.paths.state / "stopped.json").exists():  # tpu-fleet stop has written it
            print(json.dumps({"state": "stopped"}))
            return 0
        if time.monotonic() > deadline:
            print(f"the agent has not taken up {config.run} within {wait:.0f} s", file=sys.stderr)
            return 1
        time.sleep(0.2)
