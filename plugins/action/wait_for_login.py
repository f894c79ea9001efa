# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until somebody can log in to the host; nothing is needed there but a shell."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Log in again and again until it works."""

    _VALID_ARGS = frozenset(("timeout", "sleep"))

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Try it once at least; end with what the last try said."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {"timeout": {"type": "int", "default": 300}, "sleep": {"type": "float", "default": 1.0}}
        )
        # The host may be one that is not made in check mode.
        if self._task.check_mode:
            result.update(changed=False, skipped=True)
            return result
        began = time.monotonic()
        while True:
            said = self._try()
            waited = round(time.monotonic() - began, 1)
            if said is None:
                result.update(changed=False, waited=waited)
                return result
            if waited >= options["timeout"]:
                break
            time.sleep(options["sleep"])
        host = (task_vars or {}).get("inventory_hostname", "the host")
        result.update(
            failed=True,
            changed=False,
            waited=waited,
            msg=(
                f"Nobody could log in to {host} within {options['timeout']} s. The last try: "
                f"{said} tpu-fleet doctor says why; fleet_connection_timeout is the limit."
            ),
        )
        return result

    def _try(self) -> str | None:
        """Log in once; return what is wrong."""
        # A connection that was opened before a reboot is not one any more.
        reset = getattr(self._connection, "reset", None)
        try:
            if reset is not None:
                reset()
            told = self._low_level_execute_command("exit 0", sudoable=False)
        except AnsibleConnectionFailure as error:
            return _sentence(str(error))
        if told.get("rc"):
            return _sentence(f"{told.get('stderr', '')} {told.get('stdout', '')}")
        return None


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".") + "."
