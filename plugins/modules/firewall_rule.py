#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_rule
short_description: Open the firewall for mosh to TPU VMs, and for nothing else
version_added: 0.1.0
description:
  - Creates a firewall rule that opens C(udp:60000-61000), or a part of it, for some addresses to
    the machines with some network tags. Run it on the controller.
  - It cannot open anything else. All addresses (C(0.0.0.0/0)), networks larger than C(/8) (C(/32)
    with IPv6) and rules without target tags are refused.
  - Only rules whose description says C([tpu-fleet]) with its owner are changed or deleted; see
    O(adopt).
  - Warns of other rules of the network that open the same ports to all addresses.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
  - tpu.fleet.google_apis.owned
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the rule.
    type: str
    default: tpu-fleet-mosh
  state:
    description: Whether the rule exists.
    type: str
    choices: [present, absent]
    default: present
  source_ranges:
    description:
      - Addresses that people log in from, as V(203.0.113.7) or V(203.0.113.0/24). Needed with
        O(state=present).
      - Other addresses are removed from the rule.
    type: list
    elements: str
    default: []
  target_tags:
    description:
      - Network tags of the machines that accept mosh. Required with O(state=present).
      - The slices must carry one of them; that is O(tpu.fleet.tpu_vm#module:tags).
    type: list
    elements: str
    default: []
  ports:
    description: Ports to open, all or a part of those of mosh.
    type: str
    default: 60000-61000
  network:
    description: Network of the rule and of the machines.
    type: str
    default: default
  description:
    description: A text for people; the owner is added to it.
    type: str
"""

EXAMPLES = r"""
- name: Let the lab's network in
  tpu.fleet.firewall_rule:
    source_ranges: [203.0.113.0/24]
    target_tags: [mosh]

- name: Close it again
  tpu.fleet.firewall_rule:
    state: absent
"""

RETURN = r"""
firewall_rule:
  description: The rule, in check mode as it would be. Empty when there is none.
  returned: success
  type: dict
  sample:
    name: tpu-fleet-mosh
    network: default
    allowed: ["udp:60000-61000"]
    source_ranges: [203.0.113.0/24]
    target_tags: [mosh]
wider_rules:
  description: Names of other rules of the network that open these ports to all addresses.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, diff_of, run
from ..module_utils._compute.client import Compute
from ..module_utils._compute.firewall_plan import (
    FirewallSpec,
    differing,
    rule_summary,
    sequence_of,
    wider_rules,
)
from ..module_utils._core.ownership import owner_in, require_owned
from ..module_utils._google.apis import GoogleApis
from ..module_utils._tpu.client import Client


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Make the rule what is wanted."""
    params = module.params
    spec = FirewallSpec(
        name=params["name"],
        project=client.project,
        source_ranges=sequence_of(params["source_ranges"]),
        target_tags=sequence_of(params["target_tags"]),
        ports=params["ports"],
        network=params["network"],
        description=params["description"],
        owner=params["owner"],
    )
    if params["state"] == "present":
        spec.check()
    compute = Compute(GoogleApis(client))
    rules = compute.firewalls()
    wider = wider_rules(rules, spec.network, spec.name)
    for name, sources in wider:
        module.warn(f"The firewall rule {name} lets {sources} in to the ports of mosh, too.")
    rule = next((item for item in rules if item.get("name") == spec.name), None)
    if rule is not None:
        found = owner_in(str(rule.get("description") or ""))
        require_owned(f"firewall rule {spec.name}", found, spec.owner, params["adopt"])
    before = rule_summary(rule) if rule else {}
    if params["state"] == "absent":
        changed, after = rule is not None, {}
        if changed and not module.check_mode:
            compute.delete_firewall(spec.name)
    else:
        changes = spec.body() if rule is None else differing(spec, rule)
        changed, after = bool(changes), rule_summary({**(rule or {}), **changes})
        if changed and not module.check_mode:
            if rule is None:
                compute.create_firewall(changes)
            else:
                compute.update_firewall(spec.name, changes)
    return {
        "changed": changed,
        "firewall_rule": after,
        "wider_rules": [name for name, _sources in wider],
        "diff": diff_of(before, after),
    }


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
