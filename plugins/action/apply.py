# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have all hosts of the play apply roles to themselves, over one connection each."""

from __future__ import annotations

import asyncio
import getpass
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._ansible.options import spec_of
from ..module_utils._core import threads
from ..module_utils._core.errors import TpuError
from ..module_utils._core.wait import REMINDERS
from ..module_utils._tpu.names import GROUP_LEADERS
from ..modules.apply import DOCUMENTATION
from ..plugin_utils._apply import bundle as apply_bundle
from ..plugin_utils._apply.prepare import asked_for, prepare, show
from ..plugin_utils._apply.report import (
    RoleProgress,
    of_slices,
    recap,
    role_of,
    run_lines,
    why_of,
)
from ..plugin_utils._apply.run import KEEPALIVE, Call, Outcome, disagreements
from ..plugin_utils._apply.talk import SILENCE
from ..plugin_utils._apply.wish import Order
from ..plugin_utils._core import forks
from ..plugin_utils._core.progress import note
from ..plugin_utils._core.refused import once
from ..plugin_utils._fleet.options import said_of
from ..plugin_utils._inventory.read import Inventory, InventoryError
from ..plugin_utils._ssh.failures import LocalTrouble
from ..plugin_utils._ssh.fan_out import Settings
from ..plugin_utils._ssh.targets import SshConfigError, Target

display = Display()
# What is imported here stays, and the forks of this task and the later ones need not search it.
forks.freeze()
DECLARED = {"by": "fleet_apply", "timeout": "fleet_login_timeout", "every": "fleet_apply_every"}


class ActionModule(ActionBase):
    """One call of all hosts."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    @once
    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send each host its wish; show what the hosts do; collect how it ended."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = task_vars or {}
        said = said_of(given, self._templar.template, (), **DECLARED)
        self._task.args = {**said, **self._task.args}
        _found, options = self.validate_argument_spec(spec_of(DOCUMENTATION))
        hosts: list[str] = list(given["ansible_play_hosts"])
        roles = asked_for(options["roles"], given)
        result.update(changed=False, failures={}, hosts={}, pushed=[], shared={}, git_keys=[])
        leaders = [host for host in hosts if host in given["groups"].get(GROUP_LEADERS, [])]
        result.update(unfinished=[], moved=[], idle_runs={}, runs_unknown=leaders)
        self._moved: list[str] = []
        # The roles that change something, by host, in order.
        self._changed: dict[str, dict[str, None]] = {}
        if not roles or not hosts:
            result.update(skipped=True, msg="the tags name no role that is applied here")
            return result
        if options["by"] == "push":
            result.update(pushed=hosts, unfinished=hosts)
            return result
        pushed = without_ssh(hosts, given["hostvars"]) if options["by"] == "auto" else {}
        hosts = [host for host in hosts if host not in pushed]
        try:
            orders, outcomes, shared, runs = self._call(hosts, roles, options, given)
        except TpuError as error:
            raise AnsibleActionFail(str(error)) from error
        except (LocalTrouble, SshConfigError) as error:
            raise AnsibleActionFail(f"{error} {getattr(error, 'remedy', '')}".strip()) from error
        raw = given["hostvars"].raw_get
        slices = {host: str(raw(host).get("tpu_vm_name") or host) for host in pushed}
        slices.update({order.host: order.slice for order in orders})
        if options["by"] == "auto":
            pushed.update(without_engine(outcomes))
        for host, why in pushed.items():
            display.display(
                f"push: [{host}] Ansible applies the roles from here, because {why} "
                "With fleet_apply: push this is not tried again.",
                color="yellow",
            )
        outcomes = disagreements([one for one in outcomes if one.host not in pushed], slices)
        for text, colour in recap(outcomes):
            display.display(text, color=colour or None)
        for text in run_lines(runs, slices, bool(self._task.check_mode)):
            display.display(text, color="cyan")
        self._note(outcomes, slices, runs, pushed)
        result.update(
            changed=any(outcome.counts.get("changed") for outcome in outcomes),
            hosts={outcome.host: _told(outcome) for outcome in outcomes},
            pushed=list(pushed),
            shared=shared,
            moved=self._moved,
            failures={one.host: _told(one) for one in outcomes if one.status != "ok"},
            git_keys=[
                {"host": one.host, "slice": slices[one.host], "users": dict(one.git_users)}
                for one in outcomes
                # Users may have no key any more, which GitHub has to know, too.
                if one.git_users is not None
            ],
        )
        runs = said_of(given, self._templar.template, (), runs="fleet_runs").get("runs", [])
        if not any(run.get("multislice") for run in runs):
            result["idle_runs"] = idle_runs(leaders, outcomes, slices, list(pushed))
        result["runs_unknown"] = [host for host in leaders if host not in result["idle_runs"]]
        there = given["ansible_play_hosts"]
        result["unfinished"] = unfinished(there, result["pushed"], result["failures"])
        return result

    def _note(
        self,
        outcomes: Sequence[Outcome],
        slices: Mapping[str, str],
        runs: Mapping[str, Any],
        pushed: Mapping[str, str],
    ) -> None:
        """Report how it ended to the program that runs the playbook."""
        for one in outcomes:
            told, roles = _told(one), self._changed.get(one.host, {})
            note("machine", host=one.host, slice=slices[one.host], roles=[*roles], **told)
        for host in pushed:
            note("pushed", host=host, slice=slices[host])
        for (name, place), run in of_slices(runs, slices).items():
            note("run", **{**run, "run": name, "slice": place})

    def _call(
        self,
        hosts: Sequence[str],
        roles: Sequence[str],
        options: dict[str, Any],
        given: dict[str, Any],
    ) -> tuple[list[Order], list[Outcome], dict[str, Any], dict[str, Any]]:
        """Call the hosts; return what each was sent, how it ended, and what slices agreed on.

        Last, what each reported about its runs.
        """
        orders, targets = prepare(self, hosts, roles, options, given)
        who = f"{getpass.getuser()}@{socket.gethostname()}"
        settings = Settings(connects=options["connects"], silence=SILENCE, keepalive=KEEPALIVE)
        progress = RoleProgress(time.monotonic)
        slices = {order.host: order.slice for order in orders}
        note("called", hosts=slices)
        told = [time.monotonic()]
        runs: dict[str, Any] = {}

        def tell(line: str) -> None:
            if line:
                told[0] = time.monotonic()
                display.display(line)

        def heard(host: str, said: dict[str, Any]) -> None:
            before = progress.at(host)
            tell(progress.heard(host, said))
            if progress.at(host) != before:
                note("at", host=host, slice=slices[host], at=progress.at(host))
            if said.get("event") == "task" and said.get("status") in ("changed", "failed"):
                if role := role_of(said):
                    self._changed.setdefault(host, {})[role] = None
                if said["status"] == "failed":
                    task = str(said["task"])
                    note("failed", host=host, slice=slices[host], task=task, why=why_of(said))
            if said.get("event") == "runs":
                runs[host] = said["runs"]
            if show(host, said):
                told[0] = time.monotonic()

        def ended(host: str) -> None:
            tell(progress.ended(host))
            note("done", host=host, slice=slices[host])

        addresses = {order.host: order.address for order in orders}

        def find(away: Sequence[str]) -> Mapping[str, Target]:
            try:
                now = Inventory.read_again(given["ansible_inventory_sources"], self._loader)
                reached = now.fleet().targets
            except InventoryError as error:
                # The API may be away, too; the hosts are tried where they were.
                display.v(f"The inventory cannot be read: {error}")
                return {}
            for host in away:
                internal = now.variable(host, "tpu_vm_internal_ip")
                if internal and internal != addresses[host] and host not in self._moved:
                    self._moved.append(host)
            return {host: reached[host] for host in away if host in reached}

        publishes = options["publishes"]
        agent = apply_bundle.agent()
        git_keys = options["git_keys"]
        call = Call(orders, agent, who, heard, settings, publishes, git_keys, ended, find)

        async def watched() -> list[Outcome]:
            # It looks addresses up.
            asyncio.get_running_loop().set_default_executor(threads.pool())
            begun, pauses = time.monotonic(), REMINDERS.delays()
            work = asyncio.ensure_future(call.run(targets, options["timeout"]))
            pause = next(pauses)
            while not (await asyncio.wait([work], timeout=1))[0]:
                now = time.monotonic()
                if now - told[0] >= pause:
                    tell(progress.still(hosts, now - begun))
                    pause = next(pauses)
            return work.result()

        outcomes = asyncio.run(watched())
        shared = {n: g.shared for n, g in call.groups.items() if publishes and g.shared}
        # In the order of the hosts, so that the first worker of a slice is its first.
        return orders, outcomes, shared, {host: runs[host] for host in hosts if host in runs}


def without_ssh(hosts: Sequence[str], hostvars: Any) -> dict[str, str]:
    """Return the hosts that Ansible reaches in another way than by SSH, each with the reason."""
    ways = {host: hostvars.raw_get(host).get("ansible_connection", "ssh") for host in hosts}
    return {
        host: f"its ansible_connection is {way}."
        for host, way in ways.items()
        if str(way).removeprefix("ansible.builtin.") not in ("ssh", "smart")
    }


def unfinished(hosts: Sequence[str], pushed: list[str], failures: dict[str, Any]) -> list[str]:
    """Return the hosts that are not as declared yet; beside only failures, also one that is well.

    Ansible ends a playbook when all hosts of a play have failed.
    """
    well = [host for host in hosts if host not in failures]
    return [*pushed, *failures, *(well[:1] if failures and not pushed else [])]


def idle_runs(
    leaders: Sequence[str],
    outcomes: Sequence[Outcome],
    slices: Mapping[str, str],
    pushed: Sequence[str],
) -> dict[str, list[Mapping[str, str]]]:
    """Return the runs that do not run, by leader, of the slices where nothing was applied.

    Where something was, the runs may be about to start, stop or fail.
    """
    done = {one.host for one in outcomes if one.status == "ok" and not one.counts}
    busy = {slices[one.host] for one in outcomes if one.host not in done}
    busy |= {slices[host] for host in pushed}
    seen = {one.host: one.idle_runs for one in outcomes if slices[one.host] not in busy}
    return {host: list(runs) for host in leaders if (runs := seen.get(host)) is not None}


def without_engine(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the hosts that cannot have ansible-core, each with the reason."""
    return {one.host: f"{one.problem.rstrip('.')}." for one in outcomes if one.no_engine}


def _told(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "counts": dict(outcome.counts),
        "reasons": list(outcome.reasons),
        "problem": outcome.problem,
        "seconds": round(outcome.seconds, 1),
    }
