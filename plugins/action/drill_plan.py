# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the drills that the variables of the play ask for."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ansible.plugins.action import ActionBase

from ..filter.machines import machines
from ..module_utils._roles.training_run.drill import NUMBERS, plan
from ..module_utils._tpu.workers import GROUP_USABLE

DEFAULTS = {
    "fleet_drill_worker": 0,
    "fleet_drill_seconds": 60,
    "fleet_drill_timeout": 900,
    "fleet_drill_settle": 60,
}
NAMES = (*NUMBERS, "fleet_run", "fleet_drills", "fleet_drill_slice")


class ActionModule(ActionBase):
    """The plan; or all that is wrong with what is asked for."""

    _requires_connection = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Take the variables by their names."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}

        def said(name: str) -> Any:
            return self._templar.template(variables.get(name))

        asked = {**DEFAULTS, **{name: said(name) for name in NAMES if said(name) is not None}}
        asked["runs"] = said("training_run_runs") or []
        asked["endpoint"] = said("fleet_api_endpoint") or ""
        usable = variables["groups"].get(GROUP_USABLE, [])
        asked["machines"] = machines(variables["hostvars"], usable)
        planned = plan(asked)
        result.update(planned, at=f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}")
        result["lines"] = [
            f"{step['drill']}: {'skipped: ' + step['skip'] if step['skip'] else step['does']}"
            for step in planned["steps"]
        ]
        if planned["problems"]:
            result.update(failed=True, msg=" ".join(planned["problems"]))
        return result
