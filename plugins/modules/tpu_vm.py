#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tpu_vm
short_description: Create, change, start, stop and delete a TPU node
version_added: 0.1.0
description:
  - Makes one Cloud TPU node (a slice with all its workers) what is wanted. Run it on the
    controller.
  - Only nodes that carry the label C(tpu-fleet) are changed or deleted; see O(adopt).
  - What can only be chosen at creation (hardware, runtime version, tier, network, service account)
    is compared too. If it differs, the module fails and names the field; it never deletes a node in
    order to change it.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.wait
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the node.
    type: str
    required: true
  zone:
    description:
      - Zone of the node.
      - If it is not given, the environment variable E(CLOUDSDK_COMPUTE_ZONE) is asked.
    type: str
    required: true
  state:
    description:
      - V(present) creates the node if it is not there, and corrects it if it differs. A stopped
        node stays stopped.
      - V(started) is V(present), and the node runs.
      - V(stopped) stops a node that is there. Only single-host nodes can be stopped.
      - V(absent) deletes the node.
    type: str
    choices: [present, absent, started, stopped]
    default: present
  accelerator_type:
    description:
      - Type of the hardware, as V(v4-8).
      - Needed to create a node, unless O(accelerator_config) is given.
    type: str
  accelerator_config:
    description: Generation and shape of the hardware, instead of O(accelerator_type).
    type: dict
    suboptions:
      type:
        description: Generation as the API writes it, as V(V4).
        type: str
        required: true
      topology:
        description: Shape in chips, as V(2x2x2).
        type: str
        required: true
  runtime_version:
    description:
      - Image of the machines. By default the one that Google names for the generation.
      - A version that is known not to fit the hardware is refused.
    type: str
  tier:
    description: How the capacity is paid for. A new node is V(on_demand) if nothing is said.
    type: str
    choices: [on_demand, spot, preemptible, reserved]
  network:
    description: Network of the machines. A new node is in C(default) if nothing is said.
    type: str
  subnetwork:
    description: Subnetwork of the machines.
    type: str
  external_ips:
    description: Whether the machines have external addresses. A new node's do if nothing is said.
    type: bool
  service_account:
    description: E-mail address of the service account that the machines act as.
    type: str
  description:
    description: A text of at most 512 characters.
    type: str
  labels:
    description: Labels, added to those that the node has. See O(purge).
    type: dict
  metadata:
    description:
      - Metadata, added to what the node has. See O(purge).
      - A new node also gets C(enable-guest-attributes), through which its ssh host keys are read.
    type: dict
  startup_script:
    description:
      - Program that each machine runs as root at each boot; the metadata key C(startup-script).
    type: str
  ssh_keys:
    description:
      - Lines C(USER:TYPE KEY COMMENT), added to the metadata key C(ssh-keys). The machines make the
        users and let them log in.
      - Keys that others put there stay. See O(purge).
    type: list
    elements: str
  tags:
    description: Network tags, added to those that the node has. See O(purge).
    type: list
    elements: str
  data_disks:
    description: Disks to attach, added to those that the node has. See O(purge).
    type: list
    elements: dict
    suboptions:
      source_disk:
        description: Name of the disk, or its full name C(projects/P/zones/Z/disks/D).
        type: str
        required: true
      mode:
        description: How it is attached. Several workers can only share a disk that is V(read_only).
        type: str
        choices: [read_write, read_only]
        default: read_write
  purge:
    description:
      - Options whose value is the whole truth. What the node has beyond it is taken away, instead
        of kept.
      - V(metadata) leaves C(ssh-keys) alone, which V(ssh_keys) is for.
    type: list
    elements: str
    choices: [labels, metadata, tags, data_disks, ssh_keys]
    default: []
  owner:
    description:
      - Whose node it is, the value of the label C(tpu-fleet). A new node gets V(managed) if nothing
        is said.
      - If it is given, nodes of other owners are not touched.
    type: str
  adopt:
    description: Whether to change or delete a node that does not carry the label C(tpu-fleet).
    type: bool
    default: false
  recreate:
    description:
      - Whether to delete a node that is C(PREEMPTED) or C(TERMINATED), and so lost for good, and
        create it again. Without it the module fails on such a node.
    type: bool
    default: false
notes:
  - A node that is on its way to another state cannot be changed, so a change waits for it even with
    O(wait=false).
seealso:
  - module: tpu.fleet.tpu_vm_info
"""

EXAMPLES = r"""
- name: Get a slice of two workers
  tpu.fleet.tpu_vm:
    name: pair
    zone: us-central2-b
    accelerator_type: v4-16
    tier: spot
    labels:
      team: vision
    ssh_keys:
      - "ubuntu:{{ lookup('ansible.builtin.file', '~/.ssh/tpu_fleet.pub') }}"

- name: Leave exactly these labels on it
  tpu.fleet.tpu_vm:
    name: pair
    zone: us-central2-b
    accelerator_type: v4-16
    labels:
      team: speech
    purge: [labels]

- name: Make a preempted slice again
  tpu.fleet.tpu_vm:
    name: pair
    zone: us-central2-b
    accelerator_type: v4-16
    tier: spot
    recreate: true

- name: Delete it
  tpu.fleet.tpu_vm:
    name: pair
    zone: us-central2-b
    state: absent
"""

RETURN = r"""
tpu_vm:
  description:
    - The node, with the same names as the host variables C(tpu_vm_*) of the inventory plugin.
    - Empty when there is none. In check mode it is as the node would be.
  returned: success
  type: dict
  sample:
    name: pair
    zone: us-central2-b
    state: READY
    accelerator_type: v4-16
    workers:
      - {index: 0, host: pair-w0, internal_ip: 10.128.0.2, external_ip: 203.0.113.2}
      - {index: 1, host: pair-w1, internal_ip: 10.128.0.3, external_ip: 203.0.113.3}
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
    V(exists), V(busy), V(bad_request), V(unavailable), V(credentials), V(refused), V(timeout).
  returned: failure
  type: str
remedy:
  description: What mends it.
  returned: failure, if known
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.parameters import env_fallback

from ..module_utils._base import API_SPEC, WAIT_SPEC, poll_of, run
from ..module_utils._client import Client
from ..module_utils._node_apply import Applier, diff_of, outcome
from ..module_utils._node_plan import CHANGING, decide
from ..module_utils._node_spec import DISK_MODES, PURGEABLE, TIERS, NodeSpec
from ..module_utils._workers import node_facts

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    **API_SPEC,
    **WAIT_SPEC,
    "name": {"type": "str", "required": True},
    "zone": {
        "type": "str",
        "required": True,
        "fallback": (env_fallback, ["CLOUDSDK_COMPUTE_ZONE"]),
    },
    "state": {
        "type": "str",
        "choices": ["present", "absent", "started", "stopped"],
        "default": "present",
    },
    "accelerator_type": {"type": "str"},
    "accelerator_config": {
        "type": "dict",
        "options": {
            "type": {"type": "str", "required": True},
            "topology": {"type": "str", "required": True},
        },
    },
    "runtime_version": {"type": "str"},
    "tier": {"type": "str", "choices": list(TIERS)},
    "network": {"type": "str"},
    "subnetwork": {"type": "str"},
    "external_ips": {"type": "bool"},
    "service_account": {"type": "str"},
    "description": {"type": "str"},
    "labels": {"type": "dict"},
    "metadata": {"type": "dict"},
    "startup_script": {"type": "str"},
    "ssh_keys": {"type": "list", "elements": "str", "no_log": False},
    "tags": {"type": "list", "elements": "str"},
    "data_disks": {
        "type": "list",
        "elements": "dict",
        "options": {
            "source_disk": {"type": "str", "required": True},
            "mode": {"type": "str", "choices": list(DISK_MODES), "default": "read_write"},
        },
    },
    "purge": {"type": "list", "elements": "str", "choices": list(PURGEABLE), "default": []},
    "owner": {"type": "str"},
    "adopt": {"type": "bool", "default": False},
    "recreate": {"type": "bool", "default": False},
}


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Make the node what is wanted, or say what that would take."""
    params = module.params
    spec = NodeSpec.from_params(params, client.project)
    before = client.nodes.find(spec.zone, spec.name)
    decision = decide(
        params["state"],
        spec,
        before,
        adopt=params["adopt"],
        recreate=params["recreate"],
        wait=params["wait"],
    )
    applier = Applier(client, spec, float(params["wait_timeout"]), poll_of(module))
    if module.check_mode:
        if any(step.kind == "create" for step in decision.steps):
            applier.check_offer()
        after = outcome(decision, spec, before)
        done = [step for step in decision.steps if step.kind in CHANGING]
    else:
        after, done = applier.apply(decision, before)
    if params["state"] == "absent":
        after = None
    return {
        "changed": bool(done),
        "actions": [{"action": step.kind, "reason": step.why} for step in done],
        "diff": diff_of(decision, before, after),
        "tpu_vm": node_facts(after) if after else {},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        supports_check_mode=True,
        mutually_exclusive=[("accelerator_type", "accelerator_config")],
    )
    run(module, execute)


if __name__ == "__main__":
    main()
