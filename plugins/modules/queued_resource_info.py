#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: queued_resource_info
short_description: List queued resources
version_added: 0.1.0
description:
  - Returns the queued resources of a project, with their nodes. Run it on the controller.
extends_documentation_fragment:
  - tpu.fleet.attributes.info
  - tpu.fleet.gcp
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Return only the queued resource of this name. A missing one is no error.
    type: str
  zone:
    description: Zone to list; V(-) lists all zones.
    type: str
    default: "-"
  states:
    description: Return only queued resources in these states, as V(WAITING_FOR_RESOURCES).
    type: list
    elements: str
  tiers:
    description: Return only queued resources of these tiers.
    type: list
    elements: str
    choices: [on_demand, spot, guaranteed, reserved, best_effort, flex_start]
  labels:
    description: Return only queued resources whose nodes all have all these labels.
    type: dict
seealso:
  - module: tpu.fleet.queued_resource
"""

EXAMPLES = r"""
- name: See what uses up quota for nothing
  tpu.fleet.queued_resource_info:
    states: [SUSPENDED, FAILED]
  register: dead

- name: Say it
  ansible.builtin.debug:
    msg: "{{ item.name }} {{ item.reason }}"
  loop: "{{ dead.queued_resources }}"
"""

RETURN = r"""
queued_resources:
  description:
    - The queued resources.
    - Their nodes have the same names as the host variables C(tpu_vm_*) of the inventory plugin, and
      C(exists).
  returned: success
  type: list
  elements: dict
  sample:
    - name: big
      zone: us-central2-b
      state: FAILED
      reason: has failed for good; delete it and request it again (There is no more capacity)
      tier: spot
      error: {kind: stock_out, message: There is no more capacity}
      nodes:
        - {name: big, accelerator_type: v4-64, exists: false}
unreachable_zones:
  description: Zones that could not be asked. Whether they have queued resources is unknown.
  returned: success
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run, warn_of_unread
from ..module_utils._tpu.client import ALL_ZONES, Client
from ..module_utils._tpu.model import Listing
from ..module_utils._tpu.names import natural_key
from ..module_utils._tpu.queued_facts import queued_facts
from ..module_utils._tpu.queued_resources import QueuedResource
from ..module_utils._tpu.versions import V2ALPHA1


def is_asked_for(queued: QueuedResource, params: Mapping[str, Any]) -> bool:
    """Say whether a queued resource passes the filters."""
    labels = {key: str(value) for key, value in (params["labels"] or {}).items()}
    return (
        params["name"] in (None, queued.name)
        and (not params["states"] or queued.state in params["states"])
        and (not params["tiers"] or queued.tier in params["tiers"])
        and all(queued.labels.get(key) == value for key, value in labels.items())
    )


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """List the queued resources."""
    name, zone = module.params["name"], module.params["zone"]
    # Only v2alpha1 shows every tier.
    if name and zone != ALL_ZONES:
        one = client.queued_resources.find(zone, name, V2ALPHA1)
        listing = Listing([one] if one else [])
    else:
        listing = client.queued_resources.list(zone, V2ALPHA1)
    found = [queued for queued in listing.items if is_asked_for(queued, module.params)]
    nodes = client.nodes.list(zone) if found else Listing([])
    unreachable = list(dict.fromkeys([*listing.unreachable, *nodes.unreachable]))
    warn_of_unread(module, unreachable)
    found.sort(key=lambda queued: (natural_key(queued.name), queued.zone))
    return {
        "changed": False,
        "queued_resources": [queued_facts(queued, nodes.items) for queued in found],
        "unreachable_zones": unreachable,
    }


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
