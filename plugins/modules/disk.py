#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: disk
short_description: Create a data disk, attach it to TPU nodes, detach it, and delete it
version_added: 0.1.0
description:
  - Creates or corrects one Compute disk, and attaches it to TPU nodes through the TPU API. Run
    it on the controller.
  - A disk is attached to one node with one worker that may write on it, or to any number of nodes
    that only read.
  - A disk that may hold data is never deleted unless O(delete_data=true) says so. That is every
    disk but one that this module made and that never was attached.
  - Only disks and nodes that carry the label C(tpu-fleet) are changed or deleted; see O(adopt). A
    disk of which only O(nodes) are said is attached as it is, also without the label.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
  - tpu.fleet.google_apis.owned
  - tpu.fleet.node.zone
  - tpu.fleet.wait
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the disk.
    type: str
    required: true
  state:
    description:
      - V(present) creates a missing disk, enlarges it, corrects its labels, and attaches
        it as O(nodes) says.
      - V(absent) deletes an unattached disk.
    type: str
    choices: [present, absent]
    default: present
  size:
    description:
      - Size in whole GiB, as V(200GiB) or V(1TiB). What Google calls a GB of a disk is a GiB.
      - Required to create a disk. A disk can grow, but never shrink.
    type: str
  type:
    description:
      - Type of the disk, as V(pd-ssd). A new disk is V(pd-balanced) by default.
      - TPU v6e accepts C(hyperdisk) types only; C(hyperdisk-ml) can be read by the most nodes.
    type: str
  description:
    description: A text for people. It can only be given when the disk is created.
    type: str
  labels:
    description: Labels, added to those that the disk has.
    type: dict
    default: {}
  nodes:
    description:
      - Names of the TPU nodes, in the zone of the disk, that it is attached to.
      - Without this option nothing is attached or detached.
    type: list
    elements: str
  workers:
    description: The workers of the nodes that get it, by their numbers. By default all.
    type: list
    elements: int
    default: []
  read_only:
    description: Whether the nodes can only read. Several nodes, or several workers, always do.
    type: bool
    default: false
  exclusive:
    description:
      - Whether to detach the disk from nodes that O(nodes) does not name.
      - Unmount it there first; unwritten data is lost.
    type: bool
    default: false
  delete_data:
    description: Whether a disk that may hold data may be deleted.
    type: bool
    default: false
notes:
  - A new disk is empty. It has no file system yet.
seealso:
  - module: tpu.fleet.tpu_vm
"""

EXAMPLES = r"""
- name: Let one slice write on a disk
  tpu.fleet.disk:
    name: checkpoints
    zone: us-central2-b
    size: 200GiB
    nodes: [solo]

- name: Let many slices read the data set
  tpu.fleet.disk:
    name: imagenet
    zone: us-central2-b
    nodes: [solo, pair]
    read_only: true

- name: Take it away from all
  tpu.fleet.disk:
    name: imagenet
    zone: us-central2-b
    nodes: []
    exclusive: true

- name: Delete it with all that is on it
  tpu.fleet.disk:
    name: imagenet
    zone: us-central2-b
    state: absent
    delete_data: true
"""

RETURN = r"""
disk:
  description: The disk, in check mode as it would be. Empty when there is none.
  returned: success
  type: dict
  sample:
    name: checkpoints
    size_gb: 200
    type: pd-balanced
    labels: {tpu-fleet: managed}
    description: ""
    nodes: {solo: READ_WRITE}
actions:
  description: What was done, or in check mode what would be done, in order and with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - {action: create, reason: there is no such disk}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, diff_of, poll_of, run
from ..module_utils._compute.client import Compute
from ..module_utils._compute.disk_plan import Attach, DiskPlan, DiskSpec, plan_absent, plan_present
from ..module_utils._google.apis import GoogleApis
from ..module_utils._tpu.client import Client
from ..module_utils._tpu.model import Node
from ..module_utils._tpu.node_plan import Step
from ..module_utils._tpu.node_spec import disk_mode, gib_of
from ..module_utils._tpu.versions import V2ALPHA1


def spec_of(module: AnsibleModule, client: Client) -> DiskSpec:
    """Return the disk that the options describe."""
    params = module.params
    nodes = params["nodes"]
    return DiskSpec(
        name=params["name"],
        zone=params["zone"],
        project=client.project,
        size_gb=gib_of("size", params["size"]),
        type=params["type"],
        description=params["description"],
        labels={key: str(value) for key, value in params["labels"].items()},
        owner=params["owner"],
        nodes=None if nodes is None else tuple(dict.fromkeys(nodes)),
        mode=disk_mode(params["read_only"]),
        workers=tuple(map(str, params["workers"])),
        exclusive=params["exclusive"],
        adopt=params["adopt"],
        delete_data=params["delete_data"],
    )


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Make the disk what is wanted, or say what that would take."""
    spec = spec_of(module, client)
    spec.check()
    timeout, poll = float(module.params["wait_timeout"]), poll_of(module.params)
    compute = Compute(GoogleApis(client), timeout, poll)
    disk = compute.disk(spec.zone, spec.name)
    absent = module.params["state"] == "absent"
    asks_nodes = spec.nodes is not None or (absent and disk is not None)
    nodes = _nodes(client, spec.zone) if asks_nodes else []
    plan = plan_absent(spec, disk, nodes) if absent else plan_present(spec, disk, nodes)
    if not module.check_mode:
        for step in plan.steps:
            _take(compute, spec, plan, step)
        for step, attach in plan.patches:
            _patch(module, client, spec, step, attach)
    done = [*plan.steps, *(step for step, _attach in plan.patches)]
    return {
        "changed": bool(done),
        "disk": plan.after,
        "actions": [{"action": step.kind, "reason": step.why} for step in done],
        "diff": diff_of(plan.before, plan.after),
    }


def _nodes(client: Client, zone: str) -> list[Node]:
    """Return the nodes of a zone with all that a change of their disks must keep."""
    return [
        # v2 does not say which of several workers has a disk.
        client.nodes.get(zone, node.name, V2ALPHA1)
        if node.data_disks and len(node.endpoints) > 1
        else node
        for node in client.nodes.list(zone).items
    ]


def _take(compute: Compute, spec: DiskSpec, plan: DiskPlan, step: Step) -> None:
    if step.kind == "create":
        compute.create_disk(spec.zone, spec.create_body())
    elif step.kind == "resize":
        compute.resize_disk(spec.zone, spec.name, spec.size_gb or 0)
    elif step.kind == "label":
        compute.label_disk(spec.zone, spec.name, plan.labels)
    elif step.kind == "delete":
        compute.delete_disk(spec.zone, spec.name)


def _patch(
    module: AnsibleModule, client: Client, spec: DiskSpec, step: Step, attach: Attach
) -> None:
    """Change the disks of one node, once it takes changes."""
    timeout, poll = float(module.params["wait_timeout"]), poll_of(module.params)
    node = attach.node
    if node.is_pending:
        client.nodes.wait_ready(node.zone, node.name, None, timeout, poll)
    operation = client.nodes.patch(
        spec.zone, node.name, {"dataDisks": attach.disks}, ["data_disks"]
    )
    client.operations.wait(operation, timeout, poll)


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
