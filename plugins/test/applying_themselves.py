# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether machines apply the roles to themselves, or Ansible does it from here."""

from __future__ import annotations

DOCUMENTATION = r"""
name: applying_themselves
short_description: Do these machines apply the roles to themselves?
version_added: 0.1.0
description:
  - Tells for the machines of a fleet whether they apply the roles to themselves (V(host)), or
    Ansible applies them over SSH, task by task (V(push)).
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: fleet_apply
options:
  _input:
    description: The machines, for instance C(groups['tpu']).
    type: list
    elements: str
    required: true
  fleet_apply:
    description: What the fleet file says. With V(auto) the number of machines decides.
    type: str
    choices: [auto, host, push]
    required: true
"""

EXAMPLES = r"""
- name: Leave it to the machines
  ansible.builtin.meta: end_play
  when: groups['tpu'] is tpu.fleet.applying_themselves(fleet_apply | default('auto'))
"""

RETURN = r"""
_value:
  description: Whether they do it themselves.
  type: bool
"""

from collections.abc import Callable, Sequence

from ansible.errors import AnsibleFilterError

# Up to here a push takes minutes at most, and there is nothing to install on the machines for it.
FEW = 8


def applying_themselves(hosts: Sequence[str], fleet_apply: str) -> bool:
    """Decide it."""
    if fleet_apply not in ("auto", "host", "push"):
        raise AnsibleFilterError(f"fleet_apply is {fleet_apply!r}. Write auto, host or push.")
    return fleet_apply == "host" or (fleet_apply == "auto" and len(hosts) > FEW)


class TestModule:
    """What Ansible asks for the tests of this file."""

    def tests(self) -> dict[str, Callable[..., bool]]:
        """Name the tests."""
        return {"applying_themselves": applying_themselves}
