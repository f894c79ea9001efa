#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tpu_instance
short_description: Create, change, start, stop and delete a Compute Engine VM with TPUs
version_added: 0.1.0
description:
  - Creates or corrects one VM of Compute Engine with TPUs, which is a slice by itself. Run it on
    the controller. M(tpu.fleet.tpu_slice) makes slices of several VMs, M(tpu.fleet.tpu_vm) nodes of
    the Cloud TPU API.
  - It asks for what TPUs need and what Compute Engine does not do by itself, such as the image
    family of the machine type, gVNIC, a Hyperdisk to boot from where the type wants one,
    C(onHostMaintenance=TERMINATE), threads per core, and the scope C(cloud-platform).
  - Only VMs that carry the label C(tpu-fleet) are changed or deleted; see O(adopt).
  - Options that are fixed at creation (hardware, tier, run duration, network, service account, boot
    disk, description) are compared too. If one differs, the module fails and names the field; it
    never deletes a VM in order to change it.
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
      - V(present) creates a missing VM, and corrects one that differs. A stopped VM stays stopped.
      - V(started) is V(present), and the VM runs. Compute Engine can also start a spot VM that it
        took back, as long as the VM is still there.
      - V(stopped) stops an existing VM. A stopped spot VM is shown as V(PREEMPTED), because
        Compute Engine does not distinguish the two.
      - V(absent) deletes the VM with its boot disk, or takes back a request that waits. Data disks
        stay.
    type: str
    choices: [present, absent, started, stopped]
    default: present
  recreate:
    description:
      - Whether to delete a VM that Google took back or whose run duration is over, and to create it
        again. Without it the module fails on such a VM.
    type: bool
    default: false
  valid_for:
    description:
      - How long a V(flex_start) request may wait for capacity, as V(2h), which is the most that
        Compute Engine allows and the default. Below 90 seconds it does not wait.
      - It is only used to create a VM.
    type: str
notes:
  - A V(flex_start) VM that waits has the state V(WAITING_FOR_RESOURCES). Compute Engine does not
    show whether capacity or quota is missing.
  - A request that waited in vain leaves no VM. The module reads the reason from the operation that
    was to create it, and so does M(tpu.fleet.tpu_instance_info).
  - O(wait_timeout) is usually shorter than a flex-start request may wait. Ask with O(wait=false)
    first, and wait with the same options later.
  - With O(wait=false) nothing is changed of a VM that waits for capacity.
seealso:
  - module: tpu.fleet.tpu_instance_info
  - module: tpu.fleet.tpu_slice
  - name: TPU resources in Compute Engine
    description: What becomes of nodes and queued resources there.
    link: https://docs.cloud.google.com/compute/docs/tpus/tpu-resources-in-compute-engine
  - name: Method instances.insert
    description: The request that is sent.
    link: https://docs.cloud.google.com/compute/docs/reference/rest/v1/instances/insert
"""

EXAMPLES = r"""
- name: Ask for one chip, cheaply, and do not wait
  tpu.fleet.tpu_instance:
    name: cheap
    zone: us-east5-a
    accelerator_type: v6e-1
    tier: flex_start
    max_run_duration: 1d
    valid_for: 2h
    wait: false

- name: Get eight chips in one VM, with a data disk
  tpu.fleet.tpu_instance:
    name: eight
    zone: us-east5-a
    machine_type: ct6e-standard-8t
    tier: spot
    data_disks:
      - source_disk: checkpoints
    ssh_keys:
      - "ubuntu:{{ lookup('ansible.builtin.file', '~/.ssh/tpu_fleet.pub') }}"

- name: Stop it
  tpu.fleet.tpu_instance:
    name: eight
    zone: us-east5-a
    state: stopped

- name: Delete it
  tpu.fleet.tpu_instance:
    name: eight
    zone: us-east5-a
    state: absent
"""

RETURN = r"""
tpu_instance:
  description:
    - The VM, with the same names as the host variables C(tpu_vm_*) of the inventory plugin, and
      with C(reason), why it waits.
    - Empty when there is none. In check mode it is as the VM would be.
  returned: success
  type: dict
  sample:
    name: cheap
    zone: us-east5-a
    api: compute
    state: READY
    accelerator_type: v6e-1
    machine_type: ct6e-standard-1t
    tier: flex_start
    workers:
      - {index: 0, host: cheap, instance: cheap, internal_ip: 10.128.0.2, external_ip: 203.0.113.2}
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
    """Make the VM what is wanted, or say what that would take."""
    wanted = Wanted.from_params(module.params, client.project, several=False)
    slices = ComputeSlices(client)
    return settle(slices, wanted, module.params, module.check_mode, poll_of(module.params))


def main() -> None:
    """Run the module."""
    module = api_module(DOCUMENTATION, mutually_exclusive=[("machine_type", "accelerator_type")])
    run(module, execute)


if __name__ == "__main__":
    main()
