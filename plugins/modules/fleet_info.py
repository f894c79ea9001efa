#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_info
short_description: Get the use of the grant, and the costs of the project
version_added: 0.1.0
description:
  - Counts the chips of everything that exists or is queued in the project against the grant.
  - Says what each node costs for an hour, and what it has cost so far outside of the grant. A price
    that is not known is said to be unknown.
  - Prices are those of the table in the collection, with its date, or those given as O(prices).
    They are list prices; your contract may have others, and traffic is not in them.
  - Disks, addresses on Compute Engine and buckets cost beside the chips, and no grant pays them.
  - Run it on the controller. What is not given is taken from the variables of the fleet file.
extends_documentation_fragment:
  - tpu.fleet.attributes.info
  - tpu.fleet.gcp
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  allocations:
    description: The grant, as C(fleet_allocations) of the fleet file has it, or V(unrestricted).
    type: raw
  prices:
    description:
      - Prices that come before those of the collection, as C(fleet_prices) of the fleet file has
        them.
    type: raw
  warn_before:
    description: How long before its end an entry is in RV(grant_warnings).
    type: str
    default: 7d
  owner:
    description: Value of the label C(tpu-fleet) of this fleet's resources.
    type: str
    default: managed
  buckets:
    description: Buckets whose contents are priced; those that the slices of the fleet file use.
    type: list
    elements: str
    default: []
seealso:
  - module: tpu.fleet.fleet
"""

EXAMPLES = r"""
- name: Read the fleet
  tpu.fleet.fleet_info:
    project: my-project
    allocations: "{{ fleet_allocations }}"
  register: fleet_read

- name: Show what costs money
  ansible.builtin.debug:
    msg: "{{ fleet_read.nodes | rejectattr('usd_so_far', 'equalto', 0) | list }}"
"""

RETURN = r"""
lines:
  description: The entries of the grant with their use, and RV(grant_warnings), each in a line.
  returned: success
  type: list
  elements: str
grant:
  description: The grant and its use.
  returned: success
  type: dict
  contains:
    unrestricted:
      description: Whether everything may be created.
      type: bool
    declared:
      description: Whether the fleet file says anything about it.
      type: bool
    allocations:
      description:
        - The entries, each with C(field), C(text), C(zone), C(generation), C(accelerator_type),
          C(tier), C(chips), C(used), C(last_day), C(ends), C(days_left) and C(over).
      type: list
      elements: dict
grant_warnings:
  description: What ends soon, and what is outside of the grant.
  returned: success
  type: list
  elements: str
nodes:
  description:
    - All nodes of the project, the oldest first.
    - What is not known is none.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The node.
      type: str
    zone:
      description: Its zone.
      type: str
    accelerator_type:
      description: Its type.
      type: str
    tier:
      description: Its tier.
      type: str
    state:
      description: Its state.
      type: str
    chips:
      description: How many chips it has.
      type: int
    ours:
      description: Whether it carries the label of this fleet.
      type: bool
    create_time:
      description: When it was created.
      type: str
    outside:
      description: How many of its chips are outside of the grant.
      type: int
    usd_per_hour:
      description: List price of an hour of it.
      type: float
    usd_per_hour_billed:
      description: The same for the chips outside of the grant.
      type: float
    usd_so_far:
      description: What it has cost so far outside of the grant, at this price.
      type: float
    unavailable:
      description: Why its workers cannot be used; empty if they can.
      type: str
    maintenance:
      description: Which maintenance the API announces, and when; empty if there is none.
      type: str
    workers:
      description: How many workers it has.
      type: int
beside:
  description:
    - Disks of this fleet, addresses of its slices on Compute Engine, and O(buckets), each with
      C(what), C(name), C(place), C(kind), C(amount) (gigabytes, or the number of addresses),
      C(usd_per_month), C(is_cut), which says that a bucket has more objects than were counted, and
      for a bucket C(usd_per_gb_month).
  returned: success
  type: list
  elements: dict
beside_unknown:
  description: What of it could not be read, and why.
  returned: success
  type: list
  elements: str
queued:
  description:
    - The queued resources that still wait or have died, with C(name), C(zone), C(state),
      C(reason), C(tier), C(accelerator_types), C(chips), C(create_time), C(valid_until) and
      C(ours).
  returned: success
  type: list
  elements: dict
prices:
  description: Date and sources of the table of prices.
  returned: success
  type: dict
  sample: {date: "2026-11-21", sources: ["https://cloud.google.com/tpu/pricing"]}
now:
  description: The time of the API.
  returned: success
  type: str
unreachable_zones:
  description: Zones that could not be asked. What they have is unknown, and not counted.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run, warn_of_unread
from ..module_utils._fleet.usage import usage_of
from ..module_utils._tpu.client import Client


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Look, count and add up."""
    found = usage_of(module.params, client)
    warn_of_unread(module, found["unreachable_zones"])
    return {"changed": False, **found}


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
