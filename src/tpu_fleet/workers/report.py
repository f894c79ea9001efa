"""What a playbook of the fleet did, or would do, put together from what it reports. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown_text

from .inventory.hosts import fold
from .inventory.read import in_words
from .play import Event, plain, problem_of

AROUND = ("tpu.fleet.around", "tpu.fleet.github_key", "tpu.fleet.self_setup")
"""Actions of this computer that change something outside of it."""
VERDICT = "tpu.fleet.apply_verdict"
"""Reports again, to Ansible, which machines failed."""
DEBUG, ONBOARDING = "ansible.builtin.debug", "tpu.fleet.onboarding"
FINE = ("ready", "ended")
"""Phases of a slice for which there is nothing to do."""
PUSHED = "Ansible applies the roles from this computer"
_HOST = "\0"
"""Stands in an error for the name of a host, and in no text that is shown."""


@dataclass
class Machine:
    """A machine to which roles are applied."""

    host: str
    slice: str
    at: str = ""
    """The role that it is at, or what it does before the first one."""
    done: bool = False
    status: str = ""
    """ok, failed or unreachable; empty while it is not known."""
    changed: int = 0
    roles: tuple[str, ...] = ()
    """The roles that changed something, or would."""
    problem: str = ""
    pushed: bool = False


@dataclass(frozen=True)
class Failure:
    """Something that failed."""

    host: str
    text: str


@dataclass
class Report:
    """What is known of a playbook so far."""

    slices: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Phase and text of each slice."""
    machines: dict[str, Machine] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    """The runs that start, restart or stop: run, slice, does, why, note."""
    plan: dict[str, Any] = field(default_factory=dict)
    """The plan of the slices, in check mode: see module_utils/_fleet/forecast.py."""
    beside: list[dict[str, Any]] = field(default_factory=list)
    """In check mode: what would be created and costs beside the chips, as in _fleet/beside.py."""
    declared: dict[str, list[str]] = field(default_factory=dict)
    """In check mode: the declared runs of each slice."""
    around: list[str] = field(default_factory=list)
    """The tasks that changed something around the slices, or would."""
    actions: list[str] = field(default_factory=list)
    """What was done to slices, in words."""
    messages: list[str] = field(default_factory=list)
    """What the playbook says to people."""
    folders: dict[str, str] = field(default_factory=dict)
    """The onboarding folder of each user."""
    failures: list[Failure] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    """What Ansible said outside of tasks."""

    @property
    def refused(self) -> bool:
        """Whether all that failed was refused before anything was changed."""
        changed = self.actions or self.around or any(one.changed for one in self.machines.values())
        refusals = ["Nothing was changed." in one.text for one in self.failures]
        return not changed and bool(refusals) and all(refusals)

    def progress(self, event: Event) -> list[str]:
        """Record what an action reports; return the slices that it is about."""
        kind, name = event["event"], shown_text(event.get("slice") or "")
        take = getattr(self, f"_{kind}", None)
        if take is not None:
            take(name, event)
        if event.get("hosts"):
            return list(dict.fromkeys(map(shown_text, event["hosts"].values())))
        return [name] if name else []

    def _slice(self, name: str, event: Event) -> None:
        self.slices[name] = (str(event["phase"]), shown_text(event["text"]))

    def _action(self, _name: str, event: Event) -> None:
        self.actions.append(shown_text(event["text"]))

    def _plan(self, _name: str, event: Event) -> None:
        self.plan = {key: value for key, value in event.items() if key != "event"}
        self.beside += self.plan.get("beside", ())
        for one in self.plan["slices"]:
            self.slices[one["name"]] = (one["phase"], shown_text(one["text"]))

    def _beside(self, _name: str, event: Event) -> None:
        self.beside += event["rows"]

    def _declared(self, _name: str, event: Event) -> None:
        self.declared = event["runs"]

    def _machine_of(self, name: str, event: Event) -> Machine:
        host = shown_text(event["host"])
        return self.machines.setdefault(host, Machine(host, name))

    def _called(self, _name: str, event: Event) -> None:
        for host, name in event["hosts"].items():
            self._machine_of(shown_text(name), {"host": host}).done = False

    def _at(self, name: str, event: Event) -> None:
        self._machine_of(name, event).at = shown_text(event["at"])

    def _done(self, name: str, event: Event) -> None:
        self._machine_of(name, event).done = True

    def _pushed(self, name: str, event: Event) -> None:
        machine = self._machine_of(name, event)
        machine.pushed, machine.done, machine.at = True, False, PUSHED

    def _machine(self, name: str, event: Event) -> None:
        machine = self._machine_of(name, event)
        machine.done, machine.status = True, str(event["status"])
        # GitHub's keys may be applied in a call of their own, before the others.
        machine.changed += int(event["counts"].get("changed", 0))
        machine.roles = tuple(dict.fromkeys([*machine.roles, *map(shown_text, event["roles"])]))
        machine.problem = shown_text(event["problem"] or "")
        if machine.problem:
            self.failures.append(Failure(machine.host, machine.problem))

    def _failed(self, name: str, event: Event) -> None:
        task, why = shown_text(event["task"]), shown_text(event["why"]).strip()
        self.failures.append(Failure(shown_text(event["host"]), f"{task}: {why}"))

    def _run(self, _name: str, event: Event) -> None:
        self.runs.append({key: event[key] for key in ("run", "slice", "does", "why", "note")})

    def event(self, event: Event) -> None:
        """Record an event of Ansible."""
        data: Mapping[str, Any] = event.get("event_data", {})
        kind, task = event.get("event"), data.get("task_action")
        if kind in ("error", "verbose") and event.get("stdout"):
            self.output = [*self.output, plain(event["stdout"])][-20:]
        elif kind == "runner_on_ok":
            self._went(data, str(task))
        elif task != VERDICT:
            problem = problem_of(event)
            if problem:
                host, why = problem
                whole = shown_text((data.get("res") or {}).get("msg") or "").strip()
                # Of one that has several lines, each stands on its own.
                self.failures.append(Failure(host, whole if "\n" in whole else why))
        if kind == "playbook_on_stats":
            self._end(data)

    def _went(self, data: Mapping[str, Any], action: str) -> None:
        """Record a task that succeeded."""
        result: Mapping[str, Any] = data.get("res") or {}
        message = result.get("msg")
        if action == DEBUG and isinstance(message, list):
            self.messages += map(shown_text, message)
        if action == ONBOARDING:
            self.folders = {str(name): str(path) for name, path in result["folders"].items()}
        if not result.get("changed"):
            return
        if action in AROUND:
            self.around.append(shown_text(data.get("task")))
        machine = self.machines.get(str(data.get("host")))
        if machine is not None and machine.pushed:
            machine.changed += 1
            role = shown_text(data.get("role") or "").removeprefix("tpu.fleet.")
            machine.roles = tuple(dict.fromkeys([*machine.roles, *([role] if role else [])]))

    def _end(self, data: Mapping[str, Any]) -> None:
        bad = {*data.get("failures", ()), *data.get("dark", ())}
        for machine in self.machines.values():
            if machine.pushed:
                machine.done, machine.status = True, "failed" if machine.host in bad else "ok"

    def take(self, other: Report) -> None:
        """Add what a later playbook did."""
        self.slices.update(other.slices)
        self.machines.update(other.machines)
        self.runs += other.runs
        self.plan, self.declared = other.plan or self.plan, other.declared or self.declared
        self.around += other.around
        self.beside += other.beside
        self.actions += other.actions
        self.messages += other.messages
        self.folders.update(other.folders)
        self.failures += other.failures

    @property
    def troubled(self) -> list[Machine]:
        """The machines that failed or were not reached."""
        return [one for one in self.machines.values() if one.status not in ("", "ok")]

    def reason(self) -> str:
        """Return why the playbook failed where no task says so: what Ansible printed last."""
        found = [text for text in self.output if "ERROR" in text or "rror:" in text]
        return in_words("\n".join(found))


def grouped(failures: Iterable[Failure]) -> list[tuple[list[str], str]]:
    """Put equal failures together: the hosts, and the text, in which all stand for each."""
    found: dict[str, list[str]] = {}
    for one in dict.fromkeys(failures):
        found.setdefault(_of_any_host(one), []).append(one.host)
    return [(hosts, text.replace(_HOST, fold(hosts))) for text, hosts in found.items()]


def _of_any_host(failure: Failure) -> str:
    """Return the text with a mark in the place of the host's name."""
    text = failure.text.strip()
    # As a word: a host may be called a, and solo stands in resolo.
    name = rf"(?<![\w-]){re.escape(failure.host)}(?![\w-])"
    return re.sub(name, _HOST, text) if failure.host else text
