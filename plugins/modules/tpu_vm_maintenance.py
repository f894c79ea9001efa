#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tpu_vm_maintenance
short_description: Simulate a maintenance of a TPU node
version_added: 0.1.0
description:
  - Asks the service to treat a worker as in maintenance, with C(nodes.simulateMaintenanceEvent) of
    API version C(v2alpha1). The worker reboots, and may have another external address afterwards.
  - Each call is another maintenance. Run it on the controller.
extends_documentation_fragment:
  - tpu.fleet.gcp
  - tpu.fleet.node.zone
  - tpu.fleet.wait
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the node.
    type: str
    required: true
  worker:
    description: Number of the worker.
    type: int
    default: 0
attributes:
  check_mode:
    description: Asks for nothing; a node that is not there is an error all the same.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
seealso:
  - module: tpu.fleet.tpu_vm
"""

EXAMPLES = r"""
- name: See whether the program survives a maintenance
  tpu.fleet.tpu_vm_maintenance:
    name: solo
    zone: us-central2-b
"""

RETURN = r"""
operation:
  description: Name of the operation.
  returned: when something was asked for
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, poll_of, run
from ..module_utils._tpu.client import Client


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Ask for it, and wait until the node can be used again."""
    zone, name = module.params["zone"], module.params["name"]
    # A node that is not there is an error in check mode, too.
    client.nodes.get(zone, name)
    if module.check_mode:
        return {"changed": True}
    operation = client.nodes.simulate_maintenance(zone, name, [module.params["worker"]])
    if module.params["wait"]:
        timeout = float(module.params["wait_timeout"])
        client.operations.wait(operation, timeout=timeout, backoff=poll_of(module.params))
    return {"changed": True, "operation": operation.name}


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
