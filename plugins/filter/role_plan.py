# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan what a role puts on a machine."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_plan
short_description: Plan what a role puts on a machine
version_added: 0.1.0
description:
  - Makes what the tasks of a role need of the variables of the role, as they are where it is
    called. Keys that an entry does not have are those of the role's argument specification.
  - Used by the roles of this collection; it may change.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description: Name of a role of this collection.
    type: str
    choices: [notebook_server, ray_cluster, run_queue, tensorboard_server, training_run]
    required: true
  records:
    description: What is on the machine of each code tree, for the definitions of runs.
    type: dict
  gone:
    description: Names of runs whose files are on the machine and that are not declared any more.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Run the services
  tpu.fleet.host_services:
    role: notebook_server
    services: "{{ ('notebook_server' | tpu.fleet.role_plan).services }}"
"""

RETURN = r"""
_value:
  description: What the tasks of the role need.
  type: dict
"""

import json
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.plugins.filter.core import to_json
from jinja2 import pass_context
from jinja2.runtime import Context

from ..module_utils._roles.notebook_server import services as notebooks
from ..module_utils._roles.ray_cluster import services as ray
from ..module_utils._roles.run_queue import plan as queue
from ..module_utils._roles.tensorboard_server import services as boards
from ..module_utils._roles.training_run import definition
from ..module_utils._schema.amounts import for_machines
from ..plugin_utils._roles.specs import defaults_of_entries
from ..plugin_utils._roles.variables import RoleVariables

PLANS: dict[str, Callable[..., dict[str, Any]]] = {
    "notebook_server": notebooks.plan,
    "ray_cluster": ray.plan,
    "run_queue": queue.plan,
    "tensorboard_server": boards.plan,
    "training_run": definition.plan,
}
# The role whose entries another one makes as well.
_MAKES_ENTRIES_OF = {"run_queue": "training_run"}


@pass_context
def role_plan(context: Context, role: str, **more: Any) -> dict[str, Any]:
    """Plan what a role puts on a machine."""
    # Dates, and what else YAML has and JSON has not, become the texts that land in files.
    variables = json.loads(to_json(dict(RoleVariables(role, context))))
    try:
        plain = {name: for_machines(name, value) for name, value in variables.items()}
        # Most variables have no entries.
        defaults = {
            name: for_machines(name, keys) if keys else {}
            for one in (_MAKES_ENTRIES_OF.get(role, role), role)
            for name, keys in defaults_of_entries(one).items()
        }
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from None
    return PLANS[role](plain, defaults, **more)


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"role_plan": role_plan}
