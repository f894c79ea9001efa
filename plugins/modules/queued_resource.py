#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: queued_resource
short_description: Request TPU nodes through the queue
version_added: 0.1.0
description:
  - Requests one or several Cloud TPU nodes of one kind through a queued resource, which waits until
    there is capacity for all of them. Run it on the controller.
  - The name is what makes it safe to run again. A queued resource cannot be changed; one that was
    asked for with something else is refused with the list of differences, see O(recreate).
  - Only queued resources whose nodes carry the label C(tpu-fleet) are touched; see O(adopt).
  - Version 2 of the API is used; C(v2alpha1) only for what it alone offers (the tiers
    V(best_effort) and V(flex_start), O(max_run_duration), O(boot_disk_size), disks of single
    workers).
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
    description: Name of the queued resource.
    type: str
    required: true
  state:
    description:
      - V(present) requests the nodes unless they were requested. With O(wait) it waits until all of
        them are made, and fails if the request is suspended or fails.
      - V(absent) deletes the queued resource. See O(force).
      - V(reset) recreates the nodes of an active queued resource, at every run. Their boot
        disks and what runs on them are lost.
    type: str
    choices: [present, absent, reset]
    default: present
  nodes:
    description:
      - Names of the nodes. Without it and O(node_count) there is one, called as the queued
        resource.
    type: list
    elements: str
  node_count:
    description: Request a multislice of this many nodes, at least 2, instead of O(nodes).
    type: int
  node_prefix:
    description:
      - Name prefix of the nodes of a multislice, before C(-0), C(-1) and so on. The name of the
        queued resource if nothing is said.
    type: str
  tier:
    description:
      - How the capacity is provided, by default V(on_demand), or V(reserved) with a
        O(reservation).
      - V(guaranteed) nodes are only created if they can stay for O(min_duration); V(best_effort)
        ones can be taken back at any time; V(flex_start) ones stay for O(max_run_duration).
    type: str
    choices: [on_demand, spot, guaranteed, reserved, best_effort, flex_start]
  reservation:
    description:
      - Name of the reservation to use, or its full name C(projects/P/locations/Z/reservations/R).
        Default any that fits, with O(tier=reserved).
    type: str
  valid_until_duration:
    description:
      - How long the request waits for capacity, as V(6h), V(90m) or V(2d). Then it fails.
      - Of these options with C(valid) only one can be given, or O(valid_after_time) with
        O(valid_until_time).
    type: str
  valid_until_time:
    description: Until when the request waits, as V(2026-12-31T23:59:59Z).
    type: str
  valid_after_duration:
    description: How long to wait before nodes may be created.
    type: str
  valid_after_time:
    description: The time before which no nodes may be created.
    type: str
  valid_interval:
    description: The only time in which nodes may be created.
    type: dict
    suboptions:
      start_time:
        description: When it begins.
        type: str
        required: true
      end_time:
        description: When it ends.
        type: str
        required: true
  min_duration:
    description: For how long O(tier=guaranteed) nodes must be able to stay, as V(12h).
    type: str
  max_run_duration:
    description: After how long the nodes are deleted, as V(4h).
    type: str
  force:
    description:
      - Whether nodes that exist may be deleted with the queued resource, by O(state=absent) or
        O(recreate). Their boot disks and what runs on them are lost.
    type: bool
    default: false
  recreate:
    description:
      - Whether to delete a queued resource and request again, if it is C(SUSPENDED) or C(FAILED),
        or was asked for with something else. Nodes that still exist need O(force), too.
    type: bool
    default: false
notes:
  - The options of the nodes are for new nodes. Once the queued resource is active, what can change
    in place (labels, metadata, tags, disks) is left alone; change it with M(tpu.fleet.tpu_vm).
  - A queued resource that is C(SUSPENDED) or C(FAILED) uses up quota until it is deleted.
seealso:
  - module: tpu.fleet.queued_resource_info
  - module: tpu.fleet.tpu_vm
"""

EXAMPLES = r"""
- name: Queue for a spot slice for six hours
  tpu.fleet.queued_resource:
    name: big
    zone: us-central2-b
    accelerator_type: v4-64
    tier: spot
    valid_until_duration: 6h
    wait_timeout: 21600

- name: Ask now, look later
  tpu.fleet.queued_resource:
    name: big
    zone: us-central2-b
    accelerator_type: v4-64
    tier: spot
    wait: false

- name: Ask again after a preemption
  tpu.fleet.queued_resource:
    name: big
    zone: us-central2-b
    accelerator_type: v4-64
    tier: spot
    recreate: true

- name: Get a multislice of four nodes from a reservation
  tpu.fleet.queued_resource:
    name: multi
    zone: us-central2-b
    accelerator_type: v4-16
    node_count: 4
    node_prefix: slice
    reservation: ours

- name: Get two nodes that are gone after four hours
  tpu.fleet.queued_resource:
    name: short
    zone: us-east5-a
    accelerator_type: v6e-8
    nodes: [left, right]
    tier: flex_start
    max_run_duration: 4h
    boot_disk_size: 200GiB

- name: Delete it with its nodes
  tpu.fleet.queued_resource:
    name: big
    zone: us-central2-b
    state: absent
    force: true
"""

RETURN = r"""
queued_resource:
  description:
    - The queued resource. Empty when there is none. In check mode it is as it would be.
    - Its nodes have the same names as the host variables C(tpu_vm_*) of the inventory plugin, and
      C(exists).
  returned: success
  type: dict
  sample:
    name: big
    zone: us-central2-b
    state: WAITING_FOR_RESOURCES
    initiator: ""
    reason: waits for capacity
    tier: spot
    valid_until: "2026-01-01T06:00:00Z"
    error: {}
    nodes:
      - {name: big, accelerator_type: v4-64, state: STATE_UNSPECIFIED, exists: false}
request:
  description: The body of the request that was sent, or in check mode would be sent.
  returned: when something is asked for
  type: dict
  sample:
    spot: {}
    tpu:
      nodeSpec:
        - nodeId: big
          parent: projects/p/locations/us-central2-b
          node: {acceleratorType: v4-64, schedulingConfig: {spot: true}}
actions:
  description: What was done, or in check mode what would be done, in order and with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - {action: create, reason: there is no such queued resource}
kind:
  description: >-
    What an error means, as V(stock_out), V(quota), V(rate_limit), V(permission), V(not_found),
    V(exists), V(busy), V(bad_request), V(unavailable), V(credentials), V(node_lost), V(refused),
    V(timeout).
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
from ..module_utils._tpu.node_apply import check_offer
from ..module_utils._tpu.node_spec import NODE_EXCLUSIVE
from ..module_utils._tpu.queued_apply import QueuedApplier, diff_of, look, outcome
from ..module_utils._tpu.queued_facts import queued_facts
from ..module_utils._tpu.queued_plan import QUEUED_CHANGING, QueuedWant, decide


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Make the queued resource what is wanted, or say what that would take."""
    params = module.params
    want = QueuedWant.from_params(params, client.project)
    before, nodes = look(client, want)
    decision = decide(
        params["state"],
        want,
        before,
        nodes,
        adopt=params["adopt"],
        recreate=params["recreate"],
        force=params["force"],
        wait=params["wait"],
    )
    asks = any(step.kind == "create" for step in decision.steps)
    if module.check_mode:
        if asks:
            check_offer(client, want.node)
        after = outcome(decision, want, before)
        done = [step for step in decision.steps if step.kind in QUEUED_CHANGING]
    else:
        timeout = float(params["wait_timeout"])
        applier = QueuedApplier(client, want, params["force"], timeout, poll_of(module.params))
        after, done = applier.apply(decision, before, nodes)
        if params["state"] == "absent":
            after = None
        if decision.steps and after is not None:
            _queued, nodes = look(client, want)
    return {
        "changed": bool(done),
        "actions": [
            {"action": step.kind, "reason": step.why, **({"name": step.name} if step.name else {})}
            for step in done
        ],
        "diff": diff_of(decision, before, after),
        "queued_resource": queued_facts(after, nodes) if after else {},
        **({"request": want.body()} if asks else {}),
    }


def main() -> None:
    """Run the module."""
    module = api_module(
        DOCUMENTATION,
        mutually_exclusive=[*NODE_EXCLUSIVE, ("nodes", "node_count")],
        required_by={"node_prefix": "node_count"},
    )
    run(module, execute)


if __name__ == "__main__":
    main()
