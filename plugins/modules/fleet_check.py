#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_check
short_description: Check a whole fleet file before anything is changed
version_added: 0.1.0
description:
  - Checks slices, the grant, users, venvs, code trees and runs, and that they fit together.
  - Adds the chips of the slices up against the grant, before anything is asked of Google.
  - Reports everything at once, each problem with field, value, what is wrong and what to do.
  - Reads nothing but its options and changes nothing. Run it on the controller.
author:
  - The tpu.fleet authors (@tpu-fleet)
extends_documentation_fragment: [tpu.fleet.attributes.info]
options:
  fleet_project:
    description: The Google Cloud project.
    type: raw
  fleet_zone:
    description: Zone of the slices that name none.
    type: raw
  fleet_ssh_user:
    description: Login that Ansible uses.
    type: raw
  fleet_ssh_private_key_file:
    description: Private key of that login.
    type: raw
  fleet_allocations:
    description:
      - What the grant allows. Nothing may be created without it.
      - A list, or V(unrestricted), which lets everything be created that the project's quota lets.
      - Each entry has C(zone); C(tier), one of V(on_demand), V(spot) and V(reserved);
        C(generation) (V(v2), V(v3), V(v4), V(v5e), V(v5p) or V(v6e)) for any size of it, or one
        C(accelerator_type); C(chips), or C(count) for so many of the accelerator type.
      - C(ends) is the last day of an entry, to its end in UTC, or an instant in RFC 3339.
      - An entry that is over is not wrong, but told as a warning.
    type: raw
  fleet_allocation_warn_days:
    description: From how many days before the end of an entry warnings are given.
    type: raw
  fleet_slices:
    description:
      - The TPU slices. Each has a C(name), which is that of its node.
      - C(accelerator_type), or C(accelerator_types), and C(zone), or C(zones), in order of
        preference. Without a zone, O(fleet_zone) is meant. A better type anywhere comes before a
        lesser type in a better zone.
      - C(tier) is V(on_demand) (the default), V(spot), V(preemptible), V(reserved),
        V(guaranteed), V(best_effort) or V(flex_start).
      - C(strategy) V(in_turn) (the default) tries one place after the other; V(race) queues in all
        of them, and the first that is granted wins.
      - C(queued) asks through a queued resource instead of directly. C(strategy) V(race),
        C(reservation), C(max_run_duration) and the tiers V(guaranteed), V(best_effort) and
        V(flex_start) always do.
      - C(valid_for) says how long a queued request waits, as V(6h), V(90m) or V(2d);
        C(max_run_duration) how long the node may live.
      - C(reservation) is the reservation that a slice of tier V(reserved) is taken from.
      - C(on_preempt) is V(recreate) (the default) or V(keep); C(on_grant_end) is V(keep) (the
        default) or V(delete).
      - C(recreate) lets the slice be deleted and made again where a field differs that cannot be
        changed in place. C(adopt) takes over a node that something else made.
      - The other keys are C(runtime_version), C(boot_disk_size_gb), C(data_disks), C(labels),
        C(metadata), C(tags), C(network), C(subnetwork), C(external_ips), C(service_account),
        C(startup_script) and C(description), as in the module M(tpu.fleet.tpu_vm).
    type: raw
  fleet_prune:
    description: Whether slices that are ours but no longer declared are deleted.
    type: raw
  fleet_prices:
    description:
      - Prices that come before those of the collection when costs are shown.
      - Each entry has C(generation) or C(accelerator_type), C(region), C(tier) and
        C(usd_per_chip_hour).
    type: raw
  fleet_services:
    description: Google's APIs that are to be enabled.
    type: raw
  fleet_project_keys:
    description: Keys that open all machines of the project.
    type: raw
  fleet_mosh:
    description: From where mosh is let in to which slices.
    type: raw
  fleet_disks:
    description: The data disks, and the slices that have them.
    type: raw
  fleet_service_account:
    description: The service account that the slices act as.
    type: raw
  user_accounts_users:
    description: The users, as in the role P(tpu.fleet.user_accounts#role).
    type: raw
  user_accounts_groups:
    description: The groups, as in the role P(tpu.fleet.user_accounts#role).
    type: raw
  python_env_venvs:
    description: The virtual environments, as in the role P(tpu.fleet.python_env#role).
    type: raw
  code_checkout_trees:
    description: The code trees, as in the role P(tpu.fleet.code_checkout#role).
    type: raw
  training_run_runs:
    description: The runs, as in the role P(tpu.fleet.training_run#role).
    type: raw
  variable_names:
    description:
      - Names of all variables that are set, to find those that are nearly, but not quite, one of
        the fleet file.
    type: list
    elements: str
    default: []
notes:
  - The options have no type of their own, so that a value of a wrong type is reported together
    with everything else.
"""

EXAMPLES = r"""
- name: Check the fleet file
  tpu.fleet.fleet_check:
    fleet_project: "{{ fleet_project | default(none) }}"
    fleet_allocations: "{{ fleet_allocations | default(none) }}"
    fleet_slices: "{{ fleet_slices | default([]) }}"
    user_accounts_users: "{{ user_accounts_users | default([]) }}"
    variable_names: "{{ q('ansible.builtin.varnames', '^(fleet|training_run)_') }}"

- name: Check slices against a grant
  tpu.fleet.fleet_check:
    fleet_allocations:
      - zone: us-central2-b
        generation: v4
        tier: on_demand
        chips: 32
        ends: 2026-12-31
      - zone: europe-west4-a
        accelerator_type: v3-8
        tier: on_demand
        count: 5
    fleet_slices:
      - name: big
        accelerator_type: v4-64
        zone: us-central2-b
"""

RETURN = r"""
problems:
  description: What is wrong; empty when the module succeeds.
  returned: always
  type: list
  elements: dict
  contains:
    field:
      description: Where in the fleet file.
      type: str
      sample: fleet_slices[1].accelerator_type
    value:
      description: What stands there; none when it is missing or secret.
      type: raw
      sample: v4-9
    message:
      description: What is wrong with it.
      type: str
      sample: is not a known accelerator type
    remedy:
      description: What to do.
      type: str
      sample: Did you mean v4-8
"""

from datetime import datetime, timezone
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._fleet import VARIABLES, check_fleet, check_variable_names, notices


def main() -> None:
    """Run the module."""
    spec: dict[str, dict[str, Any]] = {name: {"type": "raw"} for name in VARIABLES}
    spec["fleet_project_keys"]["no_log"] = False  # public keys
    spec["variable_names"] = {"type": "list", "elements": "str", "default": []}
    # The environment of a run holds secrets: no log of this computer may get the options.
    module = AnsibleModule(spec, supports_check_mode=True, no_log=True)
    fleet = {name: module.params[name] for name in VARIABLES}
    problems = check_fleet(fleet)
    problems += check_variable_names(module.params["variable_names"])
    found = [vars(problem) for problem in problems]
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in problems)
        module.fail_json(msg=f"The fleet file has {count}:\n{lines}", problems=found, invocation={})
    for notice in notices(fleet, datetime.now(timezone.utc)):
        module.warn(notice)
    module.exit_json(changed=False, problems=found, invocation={})


if __name__ == "__main__":
    main()
