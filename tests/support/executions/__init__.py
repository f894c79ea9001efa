"""Count what a playbook executes on its hosts, really: each time that ssh is called."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Count:
    """What one role did on the host on which it did most."""

    role: str
    tasks: int
    executions: int


def environment(folder: Path) -> dict[str, str]:
    """Return the variables with which Ansible notes everything in a folder."""
    return {
        "TPU_FLEET_EXECUTIONS": str(folder / "executions"),
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE),
        "ANSIBLE_CALLBACKS_ENABLED": "execution_log",
        "ANSIBLE_SSH_EXECUTABLE": str(HERE / "ssh"),
        # Files go through ssh, too, so that they are counted.
        "ANSIBLE_SSH_TRANSFER_METHOD": "piped",
    }


def read(folder: Path) -> list[Count]:
    """Count by role what was noted in a folder; the whole is the last."""
    tasks = [json.loads(line) for line in (folder / "executions.tasks").read_text().splitlines()]
    calls = []
    for line in (folder / "executions.log").read_text().splitlines():
        time, _space, host = line.partition(" ")
        # What Ansible asks ssh itself has no host.
        if host and not host.startswith("-"):
            calls.append((float(time), host))
    return count(tasks, calls)


def count(tasks: list[dict[str, object]], calls: Iterable[tuple[float, str]]) -> list[Count]:
    """Give each call to the task that had begun last: the next begins when all hosts have ended."""
    starts = [float(str(task["time"])) for task in tasks]
    begun: Counter[tuple[str, str]] = Counter()
    executed: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        begun[str(task["role"]), str(task["host"])] += 1
    for time, host in calls:
        place = bisect_right(starts, time)
        role = str(tasks[place - 1]["role"]) if place else ""
        executed[role, host] += 1
    roles = list(dict.fromkeys(str(task["role"]) for task in tasks))
    found = [Count(role, _most(begun, role), _most(executed, role)) for role in roles]
    hosts = {host for _role, host in executed}
    whole = max(
        (sum(n for (_r, h), n in executed.items() if h == host) for host in hosts), default=0
    )
    return [*found, Count("all", sum(one.tasks for one in found), whole)]


def table(counts: Iterable[Count]) -> str:
    """Draw the counts."""
    rows = [f"{'role':24} {'tasks':>6} {'executions':>11}"]
    rows += [f"{c.role or '(playbook)':24} {c.tasks:6} {c.executions:11}" for c in counts]
    return "\n".join(rows)


def _most(counted: Counter[tuple[str, str]], role: str) -> int:
    return max((n for (name, _host), n in counted.items() if name == role), default=0)
