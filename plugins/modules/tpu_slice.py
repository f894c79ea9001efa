#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tpu_slice
short_description: Create, change and delete a Compute Engine slice of several VMs with TPUs
version_added: 0.1.0
description:
  - Creates or corrects a slice of several VMs of Compute Engine, whose chips are connected. Run it
    on the controller. M(tpu.fleet.tpu_instance) makes slices of one VM.
  - A slice is a managed instance group in bulk mode, which makes all its VMs at once or none, with
    an instance template and a workload policy. All three have the name of the slice. They are made
    in the order policy, template, group, and deleted in the opposite one.
  - What an interrupted creation left is used, or created again if it differs.
  - Only slices that carry the label C(tpu-fleet) are changed or deleted; see O(adopt).
  - Options that are fixed at creation (hardware, tier, run duration, network, service account, boot
    disk, description) are compared too. If one differs, the module fails and names the field; it
    never deletes a slice in order to change it.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
  - tpu.fleet.compute
  - tpu.fleet.node.machine
  - tpu.fleet.node.zone
  - tpu.fleet.wait
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  state:
    description:
      - V(present) creates a missing slice, and corrects one that differs, VM by VM.
      - V(absent) deletes the group with its VMs and their boot disks, then template and policy.
        Data disks stay.
    type: str
    choices: [present, absent]
    default: present
  topology:
    description:
      - How the chips are connected, as V(4x4) or V(2x2x2). It determines the number of VMs;
        another size is refused.
      - Needed with O(machine_type), and may be left out with O(accelerator_type).
    type: str
  repair:
    description:
      - Whether the group makes a lost VM again by itself, under its name and from a new boot disk.
        It is not possible with O(tier=flex_start).
      - It is only used to create a slice.
    type: bool
    default: false
  recreate:
    description:
      - Whether to delete a slice that lost VMs for good, or whose request failed, and to create it
        again. Without it the module fails on such a slice.
    type: bool
    default: false
notes:
  - A slice that waits for capacity has the state V(WAITING_FOR_RESOURCES). It waits until it is
    deleted, unless O(valid_for) is set; then it has failed when that time is over, but its group
    stays until it is deleted.
  - With O(wait=false) and O(state=absent) template and policy stay until the next run, because the
    group needs them until it is gone.
  - The VMs have random names, and their order is that of C(agent-worker-number) in their metadata.
seealso:
  - module: tpu.fleet.tpu_instance
  - module: tpu.fleet.tpu_instance_info
  - name: Bulk mode
    description: How a group makes all its VMs at once.
    link: https://docs.cloud.google.com/compute/docs/instance-groups/about-bulk-mode
  - name: Workload policies
    description: How the chips of a group are connected.
    link: https://docs.cloud.google.com/compute/docs/instance-groups/create-workload-policies
"""

EXAMPLES = r"""
- name: Get 16 chips in four VMs
  tpu.fleet.tpu_slice:
    name: wide
    zone: us-east5-a
    machine_type: ct6e-standard-4t
    topology: 4x4
    tier: spot
    labels:
      team: vision

- name: Get two VMs of TPU7x from a reservation
  tpu.fleet.tpu_slice:
    name: new
    zone: us-central1-c
    accelerator_type: v7x-16
    tier: reserved
    reservation: ours

- name: Delete it with its template and policy
  tpu.fleet.tpu_slice:
    name: wide
    zone: us-east5-a
    state: absent
"""

RETURN = r"""
tpu_slice:
  description:
    - The slice, with the same names as the host variables C(tpu_vm_*) of the inventory plugin, and
      with C(reason), why it waits or has failed, and C(valid_until), the end of its wait.
    - Empty when there is none. In check mode it is as the slice would be.
  returned: success
  type: dict
  sample:
    name: new
    zone: us-central1-c
    api: compute
    state: READY
    accelerator_type: v7x-16
    machine_type: tpu7x-standard-4t
    topology: 2x2x2
    workers:
      - {index: 0, host: new-w0, instance: new-x1f, internal_ip: 10.0.0.2, external_ip: 203.0.113.2}
      - {index: 1, host: new-w1, instance: new-8k2, internal_ip: 10.0.0.3, external_ip: 203.0.113.3}
actions:
  description: What was done, or in check mode what would be done, in order and with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - {action: patch, reason: labels differ}
kind:
  description: >-
    What an error means, as V(stock_out), V(quota), V(rate_limit), V(permission), V(not_found),
    V(exists), V(name_taken), V(busy), V(bad_request), V(unavailable), V(credentials), V(refused),
    V(node_lost), V(timeout).
  returned: failure
  type: str
remedy:
  description: The remedy.
  returned: failure, if known
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, poll_of, run
from ..module_utils._compute.slice_apply import settle
from ..module_utils._compute.slice_plan import Wanted
from ..module_utils._compute.slices import ComputeSlices
from ..module_utils._tpu.client import Client


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Make the slice what is wanted, or say what that would take."""
    wanted = Wanted.from_params(module.params, client.project, several=True)
    slices = ComputeSlices(client)
    return settle(slices, wanted, module.params, module.check_mode, poll_of(module.params))


def main() -> None:
    """Run the module."""
    module = api_module(DOCUMENTATION, mutually_exclusive=[("machine_type", "accelerator_type")])
    run(module, execute)


if __name__ == "__main__":
    main()
