# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a host fail in Ansible that did not become what it was asked to be."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure

from ..modules.apply_verdict import DOCUMENTATION
from ..plugin_utils._fleet.declared import Declared


class ActionModule(Declared):
    """The verdict on one host."""

    _requires_connection = False
    _supports_check_mode = True

    def act(self) -> dict[str, Any]:
        """Look the host up among the failures of a call."""
        own = self.options(DOCUMENTATION)["failures"].get(self.vars["inventory_hostname"])
        if own is None:
            return {"changed": False}
        if own["status"] == "unreachable":
            raise AnsibleConnectionFailure(own["problem"])
        counts = own["counts"]
        failed = counts.get("failed", 0)
        tasks = "1 task failed" if failed == 1 else f"{failed} tasks failed"
        return {"changed": False, "failed": True, "msg": own["problem"] or f"{tasks} (see above)"}
