# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say which workers a fleet has and where they are."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nfs_hosts
short_description: List the workers of the inventory with their internal addresses
version_added: 0.1.0
description:
  - Makes from the variables that P(tpu.fleet.tpu#inventory) gives to its hosts what
    P(tpu.fleet.nfs_share#role) takes as O(tpu.fleet.nfs_share#role:main:nfs_share_hosts).
  - Hosts that are no TPU workers are left out. Workers that cannot be reached now are not.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description: The variables of the hosts by their name, C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Share a folder
  ansible.builtin.include_role:
    name: tpu.fleet.nfs_share
  vars:
    nfs_share_hosts: "{{ hostvars | tpu.fleet.nfs_hosts }}"
"""

RETURN = r"""
_value:
  description: Slice, number, zone and internal address of each worker, in this order.
  type: list
  elements: dict
"""

from collections.abc import Callable, Mapping
from typing import Any


def nfs_hosts(hostvars: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """List the workers of the inventory."""
    found = []
    for host in hostvars:
        known = hostvars[host]
        if "tpu_vm_name" not in known or "tpu_vm_worker_index" not in known:
            continue
        found.append(
            {
                "slice": str(known["tpu_vm_name"]),
                "worker": int(known["tpu_vm_worker_index"]),
                "zone": str(known.get("tpu_vm_zone") or ""),
                "address": str(known.get("tpu_vm_internal_ip") or ""),
            }
        )
    return sorted(found, key=lambda one: (one["slice"], one["worker"], one["zone"]))


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"nfs_hosts": nfs_hosts}
