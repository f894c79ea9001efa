# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack what machines get from folders of the controller, in Ansible itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.module_utils.common.validation import check_type_path

from ..module_utils._host.snapshot import MAX_BYTES, SnapshotError
from ..modules import code_snapshot
from ..plugin_utils._fleet.declared import Declared, together

NAMES = {
    "trees": "fleet_code",
    "code": "code_checkout_snapshot_dir",
    "people": "fleet_shells",
}


class ActionModule(Declared):
    """The folders of fleet_code, and those of the dotfiles of fleet_shells."""

    _supports_check_mode = True

    def act(self) -> dict[str, Any]:
        """Pack each folder, also in check mode, because machines say by it what would change."""
        self._task.check_mode = False
        said = self.said("state_dir", **NAMES)
        trees = [tree for tree in said.get("trees", []) if "local_path" in tree]
        code = [self._pack(tree["name"], tree["local_path"], said["code"]) for tree in trees]
        dotted = {
            one["user"]: one["dotfiles"]["local_path"]
            for one in said.get("people", [])
            if "local_path" in (one.get("dotfiles") or {})
        }
        target = f"{said.get('state_dir')}/snapshots"
        dotfiles = [
            {"user": user, **self._pack(f"dotfiles-{user}", folder, target)}
            for user, folder in dotted.items()
        ]
        done = [*code, *dotfiles]
        return {**together(done), "dotfiles": dotfiles, "skipped": not done}

    def _pack(self, name: str, folder: str, target: str) -> dict[str, Any]:
        # A relative folder begins at the folder of the inventory.
        whole = Path(str(self.vars.get("inventory_dir", "")), Path(folder).expanduser())
        options = {
            "name": name,
            "folder": check_type_path(str(whole)),
            "snapshot_dir": check_type_path(target),
            "max_bytes": MAX_BYTES,
        }
        try:
            return code_snapshot.run(options, self._task.check_mode)
        except SnapshotError as error:
            return {"failed": True, "msg": str(error)}
