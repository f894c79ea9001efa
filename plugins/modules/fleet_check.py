#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_check
short_description: Check a whole fleet file before anything is changed
version_added: 0.1.0
description:
  - Checks slices, users, venvs, code trees and runs, and that they fit together.
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
  fleet_slices:
    description: The TPU slices.
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
    fleet_slices: "{{ fleet_slices | default([]) }}"
    user_accounts_users: "{{ user_accounts_users | default([]) }}"
    variable_names: "{{ q('ansible.builtin.varnames', '^(fleet|training_run)_') }}"
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

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._fleet import VARIABLES, check_fleet, check_variable_names


def main() -> None:
    """Run the module."""
    spec: dict[str, dict[str, Any]] = {name: {"type": "raw"} for name in VARIABLES}
    spec["variable_names"] = {"type": "list", "elements": "str", "default": []}
    # The environment of a run holds secrets: no log of this computer may get the options.
    module = AnsibleModule(spec, supports_check_mode=True, no_log=True)
    problems = check_fleet({name: module.params[name] for name in VARIABLES})
    problems += check_variable_names(module.params["variable_names"])
    found = [vars(problem) for problem in problems]
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in problems)
        module.fail_json(msg=f"The fleet file has {count}:\n{lines}", problems=found, invocation={})
    module.exit_json(changed=False, problems=found, invocation={})


if __name__ == "__main__":
    main()
