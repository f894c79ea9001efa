# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report on drills."""

from __future__ import annotations

DOCUMENTATION = r"""
name: drill_report
short_description: Report on drills
version_added: 0.1.0
description:
  - Makes a report of the verdicts of M(tpu.fleet.drill).
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: rows
options:
  _input:
    description: What it is about; C(run), C(host), C(at) and whatever else is to be kept.
    type: dict
    required: true
  rows:
    description: The verdicts.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the table
  ansible.builtin.debug:
    msg: >-
      {{ ({'run': 'digits', 'host': 'solo', 'at': '2026-11-22'}
      | tpu.fleet.drill_report([{'drill': 'kill', 'verdict': 'skipped'}])).lines }}
"""

RETURN = r"""
_value:
  description:
    - C(lines) for the screen, C(markdown), C(json), and C(bad), the drills that the run did not
      survive.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ..module_utils._roles.training_run.drill import report


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"drill_report": report}
