# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until a login to the host works; nothing is needed there but a shell."""

from __future__ import annotations

import re
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from ..module_utils._core.plain_text import shown
from ..modules.wait_for_login import DOCUMENTATION
from ..plugin_utils._fleet.declared import Declared

# What ssh says when it speaks with the machine and the machine does not admit the key.
DENIED = re.compile(r"Permission denied \(|Too many authentication failures")


class ActionModule(Declared):
    """Log in again and again until it works."""

    def act(self) -> dict[str, Any]:
        """Try it once at least; end with what the last try said."""
        options = self.options(DOCUMENTATION)
        # The host may be one that is not made in check mode.
        if self._task.check_mode:
            return {"changed": False, "skipped": True}
        began = time.monotonic()
        denied_since = None
        while True:
            said = self._try()
            now = time.monotonic()
            waited = round(now - began, 1)
            if said is None:
                return {"changed": False, "waited": waited}
            # sshd is up; a machine that was just made takes some seconds for its accounts.
            denied_since = (denied_since or now) if DENIED.search(said) else None
            is_denied = denied_since is not None and now - denied_since >= options["denied_for"]
            if is_denied or waited >= options["timeout"]:
                break
            time.sleep(options["sleep"])
        host = self.vars.get("inventory_hostname", "the host")
        message = (
            f"No login to {host} within {options['timeout']} s. The last try: "
            f"{said} tpu-fleet doctor says why; fleet_connection_timeout is the limit."
        )
        if denied_since is not None:
            message = f"{host} refuses the login: {said} {self._remedy()}"
        return {"failed": True, "changed": False, "waited": waited, "msg": message}

    def _remedy(self) -> str:
        """Say with what it was tried, and with what it should be."""
        names = ("ansible_user", "ansible_ssh_private_key_file", "fleet_ssh_user")
        user, key, ours = (str(self._templar.template(self.vars.get(name) or "")) for name in names)
        tried = f"It was tried as {user or 'your own name'} with {key or 'the keys of your ssh'}"
        if ours and user != ours:
            return (
                f"{tried}, but the slices admit {ours} (fleet_ssh_user). Take ansible_user out of "
                "your variables: the inventory tpu.fleet.tpu sets it."
            )
        return (
            f"{tried}. Name the key that the slice admits (fleet_ssh_private_key_file, or "
            "TPU_FLEET_SSH_KEY), or have the slices admit this one: tpu-fleet apply --only slices."
        )

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
    return shown(text).rstrip(".") + "."
