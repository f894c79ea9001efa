# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a host fail in Ansible that did not become what it was asked to be."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..plugin_utils._core.refused import once


class ActionModule(ActionBase):
    """The verdict on one host."""

    _requires_connection = False
    _supports_check_mode = True

    @once
    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Look the host up among the failures of a call."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _found, options = self.validate_argument_spec(
            {"failures": {"type": "dict", "required": True}}
        )
        own = options["failures"].get((task_vars or {})["inventory_hostname"])
        result.update(changed=False)
        if own is None:
            return result
        if own["status"] == "unreachable":
            raise AnsibleConnectionFailure(own["problem"])
        counts = own["counts"]
        failed = counts.get("failed", 0)
        tasks = "1 task failed" if failed == 1 else f"{failed} tasks failed"
        result.update(failed=True, msg=own["problem"] or f"{tasks} (see above)")
        return result
