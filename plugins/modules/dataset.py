#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset
short_description: Let a machine stage data sets
description:
  - Does on the machine what the role P(tpu.fleet.dataset#role) declares.
options:
  phase:
    description: V(look) refuses what cannot be staged, V(apply) has it staged.
    type: str
    choices: [look, apply]
    default: apply
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Stage data sets
  tpu.fleet.dataset: "{{ 'dataset' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

from ..module_utils._ansible.role_module import role_module
from ..module_utils._host.as_user import UserError
from ..module_utils._host.work import Failed
from ..module_utils._roles.dataset.act import Stager


def main() -> None:
    """Run the module."""
    module, settings = role_module(
        phase={"type": "str", "choices": ["look", "apply"], "default": "apply"}
    )
    stager = Stager(settings, module.run_command, module.check_mode)
    problems = stager.problems()
    if problems:
        module.fail_json(msg="Nothing was changed. " + " ".join(problems), problems=problems)
    if module.params["phase"] == "look":
        module.exit_json(changed=False, needed=stager.is_needed)
    try:
        changed = stager.apply()
    except (Failed, UserError, OSError) as error:
        module.fail_json(msg=f"Cannot set up the data sets: {error}")
    module.exit_json(
        changed=bool(stager.changes),
        needed=stager.is_needed,
        changed_paths=changed,
        hash=stager.hash(),
        must_restart=stager.must_restart(),
        names=sorted(entry["name"] for entry in stager.datasets),
        diff=stager.changes,
    )


if __name__ == "__main__":
    main()
