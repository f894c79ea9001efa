# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module fleet, and show its progress while it waits: modules cannot print.

What the fleet file says is taken from the variables here, and its rules are applied here. Mostly
there is nothing to do. That is seen from here, too: a module is a second of CPU time.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import Any, TextIO

from ansible import constants
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._ansible.api_module import client_from, failure
from ..module_utils._core import threads
from ..module_utils._core.errors import BadRequest, TpuError
from ..module_utils._fleet.apis import apis_of
from ..module_utils._fleet.apply import FleetApplier
from ..module_utils._fleet.report import answer, is_settled, plan_lines, warnings_of
from ..module_utils._fleet_file.declared import Fleet
from ..module_utils._fleet_file.fleet import check_planned
from ..module_utils._wire.auth import HAS_GOOGLE_AUTH, HAS_REQUESTS
from ..modules.fleet import rest_book
from ..plugin_utils.fleet_options import options_of, params_of, said_of
from ..plugin_utils.refused import once

display = Display()
# Short, so that what was asked for is shown before Ctrl-C ends this process.
LOOK_EVERY = 0.05
# What is asked for beside the fleet file, as variables fleet_<option>.
ASKED = (
    *("project", "api_endpoint", "scope", "teardown", "finish", "wake"),
    *("require", "wait", "wait_for", "state_dir"),
)


class ActionModule(ActionBase):
    """The module, with a file of progress lines that is read along."""

    @once
    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module; what it writes appears as it is written."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result.get("skipped"):
            return result
        arguments = dict(self._task.args)
        if "slices" not in arguments:
            variables, template = task_vars or {}, self._templar.template
            asked = said_of(variables, template, ASKED, wait_timeout="fleet_slice_timeout")
            if (state := asked.pop("state_dir", "")) != "":
                files = {"rest_file": f"{state}/rest.json", "lock_file": f"{state}/fleet.lock"}
                asked.update(files)
            arguments = {**options_of(variables, template), **asked, **arguments}
        known = self._known(arguments)
        if known is not None:
            result.update(known)
            return result
        # Elsewhere than on this computer the file would be another one.
        if self._connection.transport != "local" or arguments.get("progress_file"):
            return self._module(arguments, task_vars)
        # In the folder that Ansible clears away at its end, however that comes.
        folder: str = constants.DEFAULT_LOCAL_TMP  # type: ignore[attr-defined]  # set as it loads
        handle, path = tempfile.mkstemp(prefix="tpu-fleet-", dir=folder)
        ended = threading.Event()
        with os.fdopen(handle, encoding="utf-8") as file:
            reader = threads.start(_show, file, ended)
            try:
                seen = {"progress_file": path, "controller_pid": os.getppid()}
                return self._module({**arguments, **seen}, task_vars)
            finally:
                ended.set()
                reader.join(5)
                Path(path).unlink(missing_ok=True)

    def _known(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result where it is known without the module."""
        try:
            params = params_of(arguments)
        except AnsibleError:
            return None  # the module says it
        problems = check_planned(params)
        if problems:
            error = BadRequest("; ".join(map(str, problems)))
            return {"failed": True, **failure(error)}
        return self._settled(params)

    def _settled(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """Look whether all is as it is wanted; return nothing if that is for the module to say."""
        elsewhere = self._connection.transport != "local" or self._play_context.become
        if elsewhere or any(self._task.environment or ()) or not (HAS_REQUESTS and HAS_GOOGLE_AUTH):
            return None
        try:
            client = client_from(params)
            fleet = Fleet.from_params(params, client.project)
            if params["wake"] or params["finish"]:
                return None
            rest = rest_book(params, client).read
            plan = FleetApplier(apis_of(client, fleet), fleet, rest=rest).plan()
        except TpuError as error:
            return {"failed": True, **failure(error)}
        if not is_settled(plan):
            return None
        now = client.transport.server_time()
        for line in plan_lines(plan) if self._task.check_mode else map(str, plan.statuses):
            display.display(f"  {now:%H:%M:%S} {line}")
        return {**answer(plan, ()), "warnings": warnings_of(plan)}

    def _module(
        self, arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name="tpu.fleet.fleet", module_args=arguments, task_vars=task_vars
        )
        return answer


def _show(file: TextIO, ended: threading.Event) -> None:
    over = False
    while not over:
        over = ended.wait(LOOK_EVERY)
        for line in file.read().splitlines():
            display.display(f"  {line}")
