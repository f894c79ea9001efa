# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the slices of a fleet and apply the plan, in Ansible itself on the controller.

What the fleet file says is taken from the variables here, and its rules are applied here. Lines of
progress are printed as they come, which a module could not do.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._ansible.api_module import client_from, failure, missing_library, poll_of
from ..module_utils._core.errors import BadRequest, Refused, TpuError, WaitTimeout
from ..module_utils._core.wait import Backoff
from ..module_utils._fleet.apis import apis_of
from ..module_utils._fleet.apply import FleetApplier, Pace, Result
from ..module_utils._fleet.awaited import awaited_of
from ..module_utils._fleet.forecast import forecast
from ..module_utils._fleet.plan_terms import READY, Action, Status, unasked
from ..module_utils._fleet.report import answer, is_settled, plan_lines, warnings_of
from ..module_utils._fleet.resting import Rest, RestBook, book_of
from ..module_utils._fleet.spend import budget_of
from ..module_utils._fleet_file.declared import Fleet
from ..module_utils._fleet_file.fleet import check_planned
from ..module_utils._fleet_file.prices import parse_prices
from ..module_utils._tpu.names import FROM_CACHE, GROUP_USABLE
from ..module_utils._tpu.queued_spec import seconds_of
from ..module_utils._tpu.workers import are_as_listed
from ..plugin_utils._core import progress
from ..plugin_utils._core.refused import once
from ..plugin_utils._core.stoppable import stoppable
from ..plugin_utils._fleet.options import files_in, options_of, params_of, said_of
from ..plugin_utils._fleet.stops import read_stops

display = Display()
# What is asked for beside the fleet file, as variables fleet_<option>.
ASKED = (
    *("project", "api_endpoint", "scope", "teardown", "only", "finish", "wake", "bad_chips"),
    "state_dir",
)


class ActionModule(ActionBase):
    """The slices of a fleet; Ansible wants this name."""

    _requires_connection = False
    _supports_async = False

    @once
    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Get the slices, or say what that would take."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result.get("skipped"):
            return result
        environment: dict[str, str] = {}
        self._compute_environment_string(environment)
        # Each task has a process of its own.
        os.environ.update({name: str(value) for name, value in environment.items()})
        try:
            params = params_of(self.arguments(task_vars or {}))
        except AnsibleError as error:
            raise AnsibleActionFail(error.message) from None
        warnings: list[str] = []
        if self._task.check_mode:
            progress.note("declared", runs=self._declared_runs(task_vars or {}))
        try:
            result.update(self._carry_out(params, warnings))
            result["as_listed"] = is_as_listed(result, task_vars or {})
        except TpuError as error:
            result.update({"failed": True, **failure(error)})
        return {**result, "warnings": warnings}

    def arguments(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the task says, and the fleet file where the task names no slices."""
        arguments, template = dict(self._task.args), self._templar.template
        if "slices" in arguments:
            return arguments
        others = {"wait_for": "fleet_wait", "wait_timeout": "fleet_slice_timeout"}
        asked = said_of(variables, template, ASKED, **others)
        if "wait_timeout" in asked:
            asked["wait_timeout"] = seconds_of("fleet_slice_timeout", asked["wait_timeout"])
        files = files_in(asked.pop("state_dir", ""))
        return {**options_of(variables, template), **asked, **files, **arguments}

    def _declared_runs(self, variables: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the names of the runs that are to run, by slice."""
        said = said_of(variables, self._templar.template, (), runs="fleet_runs")
        found: dict[str, list[str]] = {}
        for run in said.get("runs", ()):
            if run.get("enabled", True):
                for name in run.get("slices", ()):
                    found.setdefault(str(name), []).append(str(run["name"]))
        state = said_of(variables, self._templar.template, ("state_dir",)).get("state_dir")
        stopped = read_stops(Path(str(state)).expanduser()) if state else {}
        return {
            name: [run for run in runs if run not in stopped.get(name, {})]
            for name, runs in found.items()
        }

    def _carry_out(self, params: dict[str, Any], warnings: list[str]) -> dict[str, Any]:
        """Make the fleet what is wanted, or say what that would take; return the result."""
        problems = check_planned(params)
        if problems:
            raise BadRequest("; ".join(map(str, problems)))
        missing = missing_library(params)
        if missing:
            raise AnsibleActionFail(missing)
        work = _Work(params, warnings, bool(self._task.check_mode))
        settled = None if self._task.check_mode else work.settled()
        result = work.foreseen() if self._task.check_mode else settled or work.applied()
        warnings += warnings_of(result.plan)
        if not self._task.check_mode or not work.takes_down:
            work.require(result)
        return {
            **answer(result.plan, result.actions),
            "awaited": sorted(work.awaited.names),
            "settled": settled is not None,
        }


class _Work:
    """One plan of one fleet, and what becomes of it."""

    def __init__(self, params: Mapping[str, Any], warnings: list[str], check: bool) -> None:
        self._params = params
        self._warnings = warnings
        self._check = check
        self._client = client_from(params)
        self._fleet = Fleet.from_params(params, self._client.project)
        self._book = book_of(self._client, params["owner"], params["rest_file"])
        self.awaited = awaited_of(params["wait_for"], [one.name for one in self._fleet.slices])

    @property
    def _waits(self) -> bool:
        return bool(self._params["wait"]) and self.awaited.waits

    @property
    def takes_down(self) -> bool:
        """Return whether slices are only deleted or stopped."""
        return bool(self._fleet.teardown or self._fleet.stop)

    def foreseen(self) -> Result:
        """Return the plan, and print it; change nothing."""
        _resting(self._params, self._fleet)
        applier = self._applier()
        plan = applier.foresee()
        for line in plan_lines(plan):
            self._show(line)
        if applier.world is not None:
            prices = parse_prices(self._params["prices"])
            told = forecast(self._fleet, applier.world, plan, prices)
            budget = budget_of(self._params, self._client, applier.world, told["changes"])
            told |= {"budget": budget}
            progress.note("plan", **told, orphans=[*map(str, plan.orphans)], prunes=plan.prunes)
        return Result(plan.actions, plan.statuses, plan)

    def settled(self) -> Result | None:
        """Return the result if all is as it is wanted, which needs no lock."""
        if self._params["wake"] or self._params["finish"]:
            return None
        plan = self._applier().plan()
        if not is_settled(plan):
            return None
        for status in plan.statuses:
            self._show(str(status))
            _seen(status)
        return Result((), plan.statuses, plan)

    def applied(self) -> Result:
        """Apply the plan until nothing is left to do; return the result."""
        resting, book = _resting(self._params, self._fleet), self._book
        applier = self._applier()
        with _only_one(self._params["lock_file"]), stoppable():
            absent = {want.name: unasked(want) for want in self._fleet.slices}
            book.wake(
                _woken(self._params["wake"], self._fleet),
                self._now(),
                {name: rest for name, rest in absent.items() if rest is not None},
            )
            # Before its deletion, or a controller that crashes in between would create it again.
            _note_rest(book, resting, self._now(), done=False)
            result = applier.apply()
            over = {name: rest for name, rest in resting.items() if result.slices[name].fine}
            _note_rest(book, over, self._now(), done=True)
        if book.alone and (resting or self._params["wake"]):
            self._warnings.append(
                f"Only this computer knows which slices rest ({book.alone}); another one would "
                "create them again."
            )
        return result

    def require(self, result: Result) -> None:
        """Raise what a person has to know: which slices are wanted and not there, and why."""
        missing = result.missing
        if self._check or not self._waits:
            missing = tuple(status for status in missing if status in result.plan.refusals)
        others = tuple(one for one in missing if not self.awaited.waits_for(one.slice))
        if others:
            self._warnings.append(_absent(others, result))
        missing = tuple(one for one in missing if one not in others)
        if not missing and result.waited is None:
            return
        if not missing and result.waited is not None:
            raise WaitTimeout(
                "what was begun to end",
                "\n".join(["", *(f"  {line}" for line in plan_lines(result.plan))]),
                result.waited,
                remedy="\nRun it again to go on; the lines of progress say what the API answered.",
            )
        text = _absent(missing, result)
        if not self.awaited.strict and len(missing) < len(result.statuses):
            self._warnings.append(text)
        elif result.waited is not None:
            raise WaitTimeout(
                "all slices",
                text,
                result.waited,
                remedy="\nRun it again to go on waiting; nothing that was asked for is lost.",
            )
        else:
            raise Refused(text, remedy="\nCorrect what the lines name and run it again.")

    def _applier(self) -> FleetApplier:
        params, retry = self._params, max(0.05, float(self._params["retry_sleep"]))
        again = Backoff(first=retry, factor=1.5, most=20 * retry)
        return FleetApplier(
            apis_of(self._client, self._fleet),
            self._fleet,
            wait=self._waits,
            awaited=self.awaited,
            timeout=float(params["wait_timeout"]),
            # Taking down costs nothing that has to be thought over as a whole.
            strict=self.awaited.strict and not self.takes_down,
            progress=self._show,
            pace=Pace(poll=poll_of(params), again=again),
            rest=self._book.read,
            seen=_seen,
        )

    def _show(self, line: str) -> None:
        display.display(f"  {self._client.transport.server_time():%H:%M:%S} {line}")

    def _now(self) -> float:
        return self._client.transport.server_time().timestamp()


def is_as_listed(result: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    """Return whether the inventory, as it was read, has all workers as they are now.

    One from a cache may have host keys of a machine that was created again.
    """
    if not result["settled"] or variables.get(FROM_CACHE):
        return False
    raw = variables["hostvars"].raw_get
    listed = {host: raw(host) for host in variables["groups"].get(GROUP_USABLE, ())}
    ready = [one["tpu_vm"] for one in result["slices"] if one["phase"] == READY]
    return are_as_listed(ready, listed)


def _absent(missing: Sequence[Status], result: Result) -> str:
    """Return that slices are missing, each with why."""
    lines = "\n".join(f"  {status}" for status in missing)
    return f"{len(missing)} of {len(result.statuses)} slices are not there:\n{lines}"


def _seen(what: Status | Action) -> None:
    """Report a slice to the program that runs the playbook."""
    if isinstance(what, Status):
        progress.note("slice", slice=what.slice, phase=what.phase, text=what.text)
    else:
        progress.note("action", slice=what.slice, text=str(what))


def _resting(params: Mapping[str, Any], fleet: Fleet) -> dict[str, Rest]:
    """Return the entries of the book for the slices that begin to rest."""
    wants = {want.name: want for want in fleet.slices}
    found = {}
    for item in params["finish"]:
        want, held = wants[item["name"]], item["how"]
        if not want.mark and not held:
            raise BadRequest(f"Of the runs of {want.name} nothing is known: give marks.")
        found[want.name] = Rest(
            held or want.on_finish,
            want.mark,
            ends=item["ends"],
            why=item["why"],
            held=bool(held),
        )
    return found


def _woken(names: Sequence[str], fleet: Fleet) -> list[str]:
    declared = [want.name for want in fleet.slices]
    unknown = sorted(set(names) - {*declared, "all"})
    if unknown:
        raise BadRequest(
            f"wake names {', '.join(unknown)}, which the fleet file does not declare.",
            remedy="Name declared slices, or all.",
        )
    return declared if "all" in names else list(names)


def _note_rest(book: RestBook, resting: Mapping[str, Rest], now: float, done: bool) -> None:
    if resting:
        book.write({name: replace(rest, at=now, done=done) for name, rest in resting.items()})


@contextmanager
def _only_one(path: str | None) -> Iterator[None]:
    """Keep a second apply on this computer away; the lock ends with the process."""
    if path is None:
        yield
        return
    with open(path, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(
                f"Another apply of this fleet runs on this computer: it holds {path}.",
                remedy="Wait until it has ended, or stop it.",
            ) from error
        yield
