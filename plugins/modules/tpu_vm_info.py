#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tpu_vm_info
short_description: List TPU nodes
version_added: 0.1.0
description:
  - Returns the Cloud TPU nodes of a project. Run it on the controller.
extends_documentation_fragment:
  - tpu.fleet.attributes.info
  - tpu.fleet.gcp
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Return only the node of this name. A missing node is no error.
    type: str
  zone:
    description: Zone to list; V(-) lists all zones.
    type: str
    default: "-"
  states:
    description: Return only nodes in these states, as V(READY).
    type: list
    elements: str
  labels:
    description: Return only nodes with all these labels.
    type: dict
seealso:
  - module: tpu.fleet.tpu_vm
  - module: tpu.fleet.tpu_instance_info
"""

EXAMPLES = r"""
- name: See what was preempted
  tpu.fleet.tpu_vm_info:
    states: [PREEMPTED, TERMINATED]
  register: lost

- name: Say it
  ansible.builtin.debug:
    msg: "{{ lost.tpu_vms | map(attribute='name') }}"
"""

RETURN = r"""
tpu_vms:
  description:
    - The nodes, with the same names as the host variables C(tpu_vm_*) of the inventory plugin.
  returned: success
  type: list
  elements: dict
  sample:
    - name: solo
      zone: us-central2-b
      state: READY
      accelerator_type: v4-8
      workers:
        - {index: 0, host: solo, internal_ip: 10.128.0.2, external_ip: 203.0.113.2}
unreachable_zones:
  description: Zones that could not be asked. Whether they have nodes is unknown.
  returned: success
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run, warn_of_unread
from ..module_utils._tpu.client import ALL_ZONES, Client
from ..module_utils._tpu.model import Listing, Node
from ..module_utils._tpu.names import natural_key
from ..module_utils._tpu.workers import node_facts


def is_asked_for(node: Node, params: Mapping[str, Any]) -> bool:
    """Say whether a node passes the filters."""
    labels = {key: str(value) for key, value in (params["labels"] or {}).items()}
    return (
        params["name"] in (None, node.name)
        and (not params["states"] or node.state in params["states"])
        and all(node.labels.get(key) == value for key, value in labels.items())
    )


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """List the nodes."""
    name, zone = module.params["name"], module.params["zone"]
    if name and zone != ALL_ZONES:
        node = client.nodes.find(zone, name)
        listing = Listing([node] if node else [])
    else:
        listing = client.nodes.list(zone)
    warn_of_unread(module, listing.unreachable)
    nodes = [node for node in listing.items if is_asked_for(node, module.params)]
    nodes.sort(key=lambda node: (natural_key(node.name), node.zone))
    return {
        "changed": False,
        "tpu_vms": [node_facts(node) for node in nodes],
        "unreachable_zones": listing.unreachable,
    }


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
