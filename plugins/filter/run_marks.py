# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether the runs of a slice are still those that it was put to rest for."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_marks
short_description: Hash the runs of each slice that may be put to rest
version_added: 0.1.0
description:
  - Returns what O(tpu.fleet.fleet#module:marks) takes. Slices whose C(on_finish) is C(keep) are
    left out, and so are runs with C(enabled) false.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: _input, slices, trees
options:
  _input:
    description: The runs, as C(training_run_runs) of the fleet file has them.
    type: list
    elements: dict
    required: true
  slices:
    description: The slices, as C(fleet_slices) has them.
    type: list
    elements: dict
    required: true
  trees:
    description: The code, as C(code_checkout_trees) has it.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Get the slices, but not those whose runs are over
  tpu.fleet.fleet:
    slices: "{{ fleet_slices }}"
    allocations: "{{ fleet_allocations }}"
    marks: "{{ training_run_runs | tpu.fleet.run_marks(fleet_slices, code_checkout_trees) }}"
"""

RETURN = r"""
_value:
  description: A hash for each slice, by its name.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ..module_utils._fleet.resting import marks_of


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"run_marks": marks_of}
