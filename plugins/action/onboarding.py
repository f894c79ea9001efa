# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the onboarding files in Ansible itself: passing 256 workers to a module takes a second."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from ansible.utils.display import Display

from ..filter.machines import machines
from ..module_utils._schema.disks import mounts_of
from ..module_utils._tpu.names import GROUP_USABLE
from ..modules.onboarding import DOCUMENTATION, write
from ..plugin_utils._fleet.declared import Declared

display = Display()
FINDER = Path(__file__).resolve().parents[2] / "playbooks/templates/onboarding/find"
KINDS = {
    "runs": "fleet_runs",
    "venvs": "fleet_venvs",
    "shares": "fleet_shares",
    "disks": "fleet_disks",
    "buckets": "fleet_buckets",
    "notebooks": "fleet_notebooks",
    "boards": "fleet_boards",
}


class ActionModule(Declared):
    """What the module does, on this computer without it."""

    _supports_check_mode = True

    def declared(self) -> dict[str, Any]:
        """Return the people, the machines and what is on them; of runs no environment."""
        said = self.said("state_dir", users="fleet_users", **KINDS)
        data = {kind: said.get(kind, []) for kind in KINDS}
        data["disks"] = mounts_of(data["disks"])
        usable = self.vars["groups"].get(GROUP_USABLE, [])
        return {
            "folder": f"{said.get('state_dir')}/onboarding",
            "users": said.get("users", []),
            "machines": machines(self.vars["hostvars"], usable),
            "finder": FINDER.read_text(encoding="utf-8"),
            "data": {**data, "runs": [{**run, "env": {}} for run in data["runs"]]},
        }

    def act(self) -> dict[str, Any]:
        """Write the files here, or run the module for another connection or user."""
        if self._connection.transport != "local" or self._play_context.become:
            return super().act()
        result = write(self.options(DOCUMENTATION), self._task.check_mode)
        for line in self._how_to_log_in(result["folders"]):
            display.display(f"  {line}")
        return result

    def _how_to_log_in(self, folders: dict[str, str]) -> list[str]:
        """Return what the person at this computer does next; a task of its own takes longer."""
        host = next(iter(self.vars["groups"].get(GROUP_USABLE, [])), "HOST")
        config = f"{self.said('state_dir').get('state_dir')}/ssh_config"
        handed = [f"folder to hand over to {name}: {path}" for name, path in folders.items()]
        return [f"log in: {shlex.join(['ssh', '-F', config, host])}", *handed]
