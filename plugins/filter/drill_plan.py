# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what a drill will do."""

from __future__ import annotations

DOCUMENTATION = r"""
name: drill_plan
short_description: Say what a drill will do, or what is wrong with what was asked for
version_added: 0.1.0
description:
  - Reads the variables of the playbook C(tpu.fleet.drill).
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description:
      - The variables by their names, and C(runs), C(endpoint) and C(machines), which
        P(tpu.fleet.machines#filter) makes.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what would be done
  ansible.builtin.debug:
    msg: >-
      {{ ({'fleet_run': 'digits', 'runs': training_run_runs,
      'machines': hostvars | tpu.fleet.machines(groups['tpu'])}
      | tpu.fleet.drill_plan).steps }}
"""

RETURN = r"""
_value:
  description:
    - C(problems), one sentence each; C(run), C(slice), C(worker), C(host); and C(steps), each with
      C(drill), C(host), C(does) and, when it cannot be done there, C(skip).
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ..module_utils._roles.training_run.drill import plan


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"drill_plan": plan}
