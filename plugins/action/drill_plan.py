# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the drills that the variables of the play ask for."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ..filter.machines import machines
from ..module_utils._roles.training_run.drill import NUMBERS, plan
from ..module_utils._tpu.names import GROUP_USABLE
from ..plugin_utils._core.refused import Refused
from ..plugin_utils._fleet.declared import Declared

DEFAULTS = {
    "fleet_drill_worker": 0,
    "fleet_drill_duration": "1m",
    "fleet_drill_timeout": "15m",
    "fleet_drill_settle": "1m",
}
NAMES = (*NUMBERS, "fleet_run", "fleet_drills", "fleet_drill_slice")


class ActionModule(Declared):
    """The plan; or all that is wrong with what is asked for."""

    _requires_connection = False
    _supports_check_mode = True

    def act(self) -> dict[str, Any]:
        """Take the variables by their names."""
        self.validate_argument_spec({})
        asked = {**DEFAULTS, **self.said(**{name: name for name in NAMES})}
        said = self.said("api_endpoint", runs="fleet_runs")
        asked.update(runs=said.get("runs", []), endpoint=said.get("api_endpoint", ""))
        usable = self.vars["groups"].get(GROUP_USABLE, [])
        asked["machines"] = machines(self.vars["hostvars"], usable)
        planned = plan(asked)
        if planned["problems"]:
            raise Refused(" ".join(planned["problems"]))
        planned["at"] = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
        planned["lines"] = [
            f"{step['drill']}: {'skipped: ' + step['skip'] if step['skip'] else step['does']}"
            for step in planned["steps"]
        ]
        return planned
