# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write how the workers are reached, for ssh and for the commands of tpu-fleet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.utils.display import Display

from ..module_utils._host.work import difference
from ..module_utils._tpu.names import GROUP_USABLE
from ..plugin_utils._apply.values import Values
from ..plugin_utils._fleet.declared import Declared
from ..plugin_utils._inventory.worker_list import Variable, groups_of, write_files
from ..plugin_utils._ssh.targets import Fleet, SshConfigError, Target, target_by

display = Display()


class ActionModule(Declared):
    """The files, from the inventory as this playbook has it."""

    _requires_connection = False
    _supports_check_mode = True

    def act(self) -> dict[str, Any]:
        """Compare and write."""
        self.validate_argument_spec({})
        variables, template = self.vars, self._templar.template

        def said(name: str, default: Any = None) -> Any:
            return template(variables.get(name, default))

        groups = groups_of(said("groups"))
        known: dict[Any, Any] = {}
        hosts = {
            name: Values(variables["hostvars"].raw_get(name), self._loader, known).read
            for name in groups.get(GROUP_USABLE, ())
        }
        sources = said("fleet_inventory_sources") or said("ansible_inventory_sources")
        fleet = Fleet(_targets(hosts), groups, tuple(map(os.path.realpath, sources)))
        try:
            written = write_files(variables, template, hosts, fleet, bool(self._task.check_mode))
        except OSError as error:
            name = error.filename or "The ssh configuration"
            raise AnsibleActionFail(f"{name} cannot be written: {error.strerror}.") from error
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        path, before = str(written.path), written.before
        told = {"changed": written.changed, "dest": path}
        if before == written.text:
            return told
        return {**told, "diff": difference(path, before or "", written.text)}


def _targets(hosts: Mapping[str, Variable]) -> dict[str, Target]:
    """Return how each worker is reached; one that cannot be understood is left to ssh."""
    found = {}
    for name, variable in hosts.items():
        try:
            found[name] = target_by(name, variable)
        except (AnsibleError, SshConfigError) as error:
            display.warning(f"tpu-fleet cannot reach {name}: {error}")
    return found
