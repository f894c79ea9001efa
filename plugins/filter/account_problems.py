# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check declared users and groups on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: account_problems
short_description: List what is wrong in declared users and groups
version_added: 0.1.0
description:
  - Applies the rules of M(tpu.fleet.fleet_check) for users and groups, before a host is touched.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: groups
options:
  _input:
    description: The users, as P(tpu.fleet.user_accounts#role) takes them.
    type: list
    elements: dict
    required: true
  groups:
    description: The groups.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Check the declared users
  ansible.builtin.assert:
    that: wrong | length == 0
    fail_msg: "{{ wrong | join(' ') }}"
  vars:
    wrong: "{{ user_accounts_users | tpu.fleet.account_problems(user_accounts_groups) }}"
"""

RETURN = r"""
_value:
  description: One text for each problem; it names the field, its value and what to do.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..module_utils._roles.user_accounts.plan import declared_problems


def account_problems(
    users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    """List the problems of declared users and groups."""
    return declared_problems(list(users), list(groups))


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"account_problems": account_problems}
