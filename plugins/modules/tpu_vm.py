#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tpu_vm
short_description: Create, change, start, stop and delete a TPU node
version_added: 0.1.0
description:
  - Creates or corrects one Cloud TPU node (a slice with all its workers). Run it on the
    controller.
  - Only nodes that carry the label C(tpu-fleet) are changed or deleted; see O(adopt).
  - Options that are fixed at creation (hardware, runtime version, tier, network, service account)
    are compared, too. If one differs, the module fails and names the field; it never deletes a
    node in order to change it.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.node
  - tpu.fleet.node.zone
  - tpu.fleet.wait
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the node.
    type: str
    required: true
  state:
    description:
      - V(present) creates a missing node, and corrects one that differs. A stopped
        node stays stopped.
      - V(started) is V(present), and the node runs.
      - V(stopped) stops an existing node. Only single-host nodes can be stopped.
      - V(absent) deletes the node.
    type: str
    choices: [present, absent, started, stopped]
    default: present
  tier:
    description: How the capacity is provided. A new node is V(on_demand) by default.
    type: str
    choices: [on_demand, spot, preemptible, reserved]
  purge:
    description:
      - Options whose value is complete. What the node has beyond it is removed. The
        values of these options are otherwise added to what the node has, and what others put there
        stays.
      - V(metadata) leaves C(ssh-keys) alone, which V(ssh_keys) is for.
    type: list
    elements: str
    choices: [labels, metadata, tags, data_disks, ssh_keys]
    default: []
  recreate:
    description:
      - Whether to delete a lost node, which is C(PREEMPTED) or C(TERMINATED), and
        create it again. Without it the module fails on such a node.
    type: bool
    default: false
notes:
  - A node that is changing its state cannot be changed, so a change waits for it even with
    O(wait=false).
  - A node that a queued resource created belongs to it. Deleting the node suspends the queued
    resource, which goes on using up quota until it is deleted, too.
seealso:
  - module: tpu.fleet.tpu_vm_info
  - module: tpu.fleet.queued_resource
  - module: tpu.fleet.tpu_instance
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
  description: The remedy.
  returned: failure, if known
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, poll_of, run
from ..module_utils._tpu.client import Client
from ..module_utils._tpu.model import Node
from ..module_utils._tpu.node_apply import Applier, check_offer, outcome, result_of
from ..module_utils._tpu.node_plan import CHANGING, decide
from ..module_utils._tpu.node_spec import NODE_EXCLUSIVE, NodeSpec
from ..module_utils._tpu.workers import node_facts


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Make the node what is wanted, or say what that would take."""
    params = module.params
    spec = NodeSpec.from_params(params, client.project)
    before = client.nodes.find(spec.zone, spec.name, spec.api_version)
    decision = decide(
        params["state"],
        spec,
        before,
        adopt=params["adopt"],
        recreate=params["recreate"],
        wait=params["wait"],
    )
    applier = Applier(client, spec, float(params["wait_timeout"]), poll_of(module.params))
    if module.check_mode:
        if any(step.kind == "create" for step in decision.steps):
            check_offer(client, spec)
        after = outcome(decision, spec, before)
        done = [step for step in decision.steps if step.kind in CHANGING]
    else:
        after, done = applier.apply(decision, before)
    if params["state"] == "absent":
        after = None
    if before is not None and any(step.kind == "delete" for step in done):
        warn_of_rest(module, before)
    result = result_of(decision, done, before, after)
    return {**result, "tpu_vm": node_facts(after) if after else {}}


def warn_of_rest(module: AnsibleModule, node: Node) -> None:
    """Say what a deleted node leaves behind."""
    if node.queued_resource:
        module.warn(
            f"The node {node.name} belongs to the queued resource {node.queued_resource}, which "
            "stays, suspended, and uses up quota until it is deleted (tpu.fleet.queued_resource "
            "with state: absent)."
        )


def main() -> None:
    """Run the module."""
    module = api_module(
        DOCUMENTATION,
        mutually_exclusive=NODE_EXCLUSIVE,
    )
    run(module, execute)


if __name__ == "__main__":
    main()
