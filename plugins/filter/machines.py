# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what the inventory knows of workers, each asked once."""

from __future__ import annotations

DOCUMENTATION = r"""
name: machines
short_description: List workers of the inventory with their connection data
version_added: 0.1.0
description:
  - Makes from the variables that P(tpu.fleet.tpu#inventory) gives to its hosts what
    M(tpu.fleet.onboarding) takes as O(tpu.fleet.onboarding#module:machines).
  - A template that asks C(hostvars) for one variable after the other has all variables of the host
    put together each time, which takes seconds for hundreds of hosts.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: hosts
options:
  _input:
    description: The variables of the hosts by their name, C(hostvars).
    type: dict
    required: true
  hosts:
    description: The hosts wanted.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show them
  ansible.builtin.debug:
    msg: "{{ hostvars | tpu.fleet.machines(groups['tpu']) }}"
"""

RETURN = r"""
_value:
  description: The workers, in the order in which they were asked for.
  type: list
  elements: dict
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

FIELDS = {
    "slice": "tpu_vm_name",
    "worker": "tpu_vm_worker_index",
    "workers": "tpu_vm_worker_count",
    "zone": "tpu_vm_zone",
    "project": "tpu_vm_project",
    "kind": "tpu_vm_accelerator_type",
    "address": "ansible_host",
    "internal": "tpu_vm_internal_ip",
    "options": "tpu_vm_ssh_options",
}


def machines(
    hostvars: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]
) -> list[dict[str, Any]]:
    """List the workers."""
    found = []
    for host in hosts:
        known = hostvars[host]
        values = {field: known.get(variable) for field, variable in FIELDS.items()}
        found.append({"host": host, **values})
    return found


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"machines": machines}
