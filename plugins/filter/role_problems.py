# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what is declared for a role, on the machine that applies it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_problems
short_description: List what is wrong in the variables of a role
version_added: 0.1.0
description:
  - Applies the rules that M(tpu.fleet.fleet_check) has for a role to the variables of the role, as
    they are where it is called.
  - What a rule compares with variables of other roles is left to M(tpu.fleet.fleet_check).
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description: Name of a role of this collection.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Check what is declared
  ansible.builtin.assert:
    that: wrong | length == 0
    fail_msg: "{{ wrong | join('\n') }}"
  vars:
    wrong: "{{ 'user_accounts' | tpu.fleet.role_problems }}"
"""

RETURN = r"""
_value:
  description: One text for each problem; it names the field, its value and what to do.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context

from ..module_utils._roles.rules_by_role import ROLE_RULES
from ..module_utils._schema.names import with_names
from ..plugin_utils._roles.variables import RoleVariables


@pass_context
def role_problems(context: Context, role: str) -> list[str]:
    """List the problems of what is declared for a role; none of a role without rules."""
    if role not in ROLE_RULES:
        return []
    variables = RoleVariables(role, context)
    found = ROLE_RULES[role](variables)
    names = variables.names() if found else {}
    return [str(with_names(problem, names)) for problem in found]


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"role_problems": role_problems}
