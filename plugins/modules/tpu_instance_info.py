#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tpu_instance_info
short_description: List Compute Engine's VMs and slices with TPUs
version_added: 0.1.0
description:
  - Returns what a project has of TPUs on Compute Engine, single VMs and slices of several, also
    those that wait for capacity or have failed. The Cloud TPU API shows none of them. Run it on the
    controller.
extends_documentation_fragment:
  - tpu.fleet.attributes.info
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Return only the VM or slice of this name. A missing one is no error.
    type: str
  zone:
    description: Zone to list; V(-) lists all zones.
    type: str
    default: "-"
  states:
    description: Return only what is in these states, as V(READY) or V(WAITING_FOR_RESOURCES).
    type: list
    elements: str
  labels:
    description: Return only what has all these labels.
    type: dict
  machine_types:
    description: Return only what is made of these machine types, as V(ct6e-standard-4t).
    type: list
    elements: str
  several:
    description:
      - V(true) returns only slices of several VMs (managed instance groups), V(false) only single
        VMs.
    type: bool
notes:
  - A V(flex_start) VM that waited in vain is gone. Only its operation has the reason, see
    RV(failures).
seealso:
  - module: tpu.fleet.tpu_instance
  - module: tpu.fleet.tpu_slice
  - module: tpu.fleet.tpu_vm_info
"""

EXAMPLES = r"""
- name: See what waits for capacity
  tpu.fleet.tpu_instance_info:
    states: [WAITING_FOR_RESOURCES]
  register: waiting

- name: Say it
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.reason }}"
  loop: "{{ waiting.tpu_instances }}"

- name: See why a VM disappeared
  tpu.fleet.tpu_instance_info:
    name: cheap
    zone: us-east5-a
  register: cheap
"""

RETURN = r"""
tpu_instances:
  description:
    - The VMs and slices, with the same names as the host variables C(tpu_vm_*) of the inventory
      plugin, and with C(reason), why one waits or has failed, C(valid_until), the end of a
      slice's wait (Compute Engine does not show that of a single VM), and C(several), whether it
      is a slice of several VMs.
    - A slice of which only the template or the policy is left is V(TERMINATED), and has no type.
  returned: success
  type: list
  elements: dict
  sample:
    - name: cheap
      zone: us-east5-a
      api: compute
      state: WAITING_FOR_RESOURCES
      reason: Compute Engine does not show whether capacity or quota is missing
      accelerator_type: v6e-1
      machine_type: ct6e-standard-1t
      several: false
failures:
  description:
    - What failed lately to be created in O(zone), the newest first. Google keeps operations for
      some days. Empty when all zones are listed.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM or slice.
      type: str
      returned: always
    time:
      description: When it was asked for.
      type: str
      returned: always
    kind:
      description: What the error means, as V(stock_out) or V(quota).
      type: str
      returned: always
    message:
      description: Google's words.
      type: str
      returned: always
  sample:
    - name: cheap
      time: "2026-11-25T10:00:00.000-08:00"
      kind: stock_out
      message: >-
        The zone 'projects/p/zones/us-east5-a' does not have enough resources available to fulfill
        the request.
unreachable_zones:
  description: Zones that could not be asked. Whether they have any is unknown.
  returned: success
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run, warn_of_unread
from ..module_utils._compute.slice_list import failures_of, listed
from ..module_utils._compute.slices import ComputeSlices
from ..module_utils._tpu.client import ALL_ZONES, Client


def is_asked_for(facts: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    """Say whether a VM or slice passes the filters."""
    labels = {key: str(value) for key, value in (params["labels"] or {}).items()}
    return (
        params["name"] in (None, facts["name"])
        and params["zone"] in (ALL_ZONES, facts["zone"])
        and params["several"] in (None, facts["several"])
        and (not params["states"] or facts["state"] in params["states"])
        and (not params["machine_types"] or facts["machine_type"] in params["machine_types"])
        and all(facts["labels"].get(key) == value for key, value in labels.items())
    )


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """List the VMs and slices."""
    params, slices = module.params, ComputeSlices(client)
    zone, name = params["zone"], params["name"]
    found = listed(slices)
    unreachable = [one for one in found.unreachable if zone in (ALL_ZONES, one)]
    warn_of_unread(module, unreachable)
    failures = [] if zone == ALL_ZONES else failures_of(slices, zone)
    return {
        "changed": False,
        "tpu_instances": [facts for facts in found.items if is_asked_for(facts, params)],
        "failures": [one for one in failures if name in (None, one["name"])],
        "unreachable_zones": unreachable,
    }


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
