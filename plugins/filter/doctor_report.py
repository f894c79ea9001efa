# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put together what the doctor found."""

from __future__ import annotations

DOCUMENTATION = r"""
name: doctor_report
short_description: Combine the doctor's results from the controller and the workers
version_added: 0.1.0
description:
  - Makes rows of the results of M(tpu.fleet.fleet_doctor) and M(tpu.fleet.host_doctor), and
    compares the workers of each slice.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: answers
options:
  _input:
    description: The result of M(tpu.fleet.fleet_doctor).
    type: dict
    required: true
  answers:
    description: The results of M(tpu.fleet.host_doctor) by worker.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Put it together
  ansible.builtin.debug:
    msg: "{{ (doctor_controller | tpu.fleet.doctor_report({'solo': doctor_worker})).lines }}"
"""

RETURN = r"""
_value:
  description:
    - C(rows), each with C(hosts), which are also one text in C(host), C(check), C(subject),
      C(status), C(says) and C(remedy); C(status), the worst of them, and C(exit_code); C(fixed),
      the repairs; and all of it in C(lines).
  type: dict
"""

from collections.abc import Callable, Mapping
from typing import Any

from ..module_utils._doctor.report import report


def doctor_report(
    controller: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Put it together."""
    return report(controller, answers or {}, controller.get("asked") or [])


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"doctor_report": doctor_report}
