# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pass all variables of a role to its module."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_settings
short_description: Pass all variables of a role to its module
version_added: 0.2.0
description:
  - Checks and converts the variables of a role by the role's argument specification, as they are
    where it is called, and adds the defaults.
  - Used by the roles of this collection; it may change.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description: Name of a role of this collection.
    type: str
    required: true
notes:
  - Named arguments replace the values of variables, by their names without the role's.
"""

EXAMPLES = r"""
- name: Set up the shells
  tpu.fleet.user_shell: "{{ 'user_shell' | tpu.fleet.role_settings }}"
"""

RETURN = r"""
_value:
  description:
    - C(settings) has each option of the role by its name without the role's.
    - C(secrets) has the values with C(no_log) by their path in the settings, such as
      C(keys/0/private_key).
  type: dict
"""

import json
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.plugins.filter.core import to_json
from jinja2 import pass_context
from jinja2.runtime import Context

from ..plugin_utils._roles.settings import WrongSettingsError, settings_of
from ..plugin_utils._roles.variables import RoleVariables


@pass_context
def role_settings(context: Context, role: str, **instead: Any) -> dict[str, dict[str, Any]]:
    """Return what the module of a role takes; `instead` of some variables have other values."""
    given = RoleVariables(role, context).there()
    given.update({f"{role}_{name}": value for name, value in instead.items()})
    # As a module would get them: dates, for example, are texts.
    variables = json.loads(to_json(given))
    try:
        return settings_of(role, variables)
    except WrongSettingsError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"role_settings": role_settings}
