# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn a duration of the fleet file into seconds."""

from __future__ import annotations

DOCUMENTATION = r"""
name: seconds
short_description: Turn a duration of the fleet file into seconds
version_added: 0.2.0
description:
  - Turns V(90s), V(30m), V(12h), V(2d) or V(1h30m) into seconds. Anything else is an error.
  - Used by the roles and playbooks of this collection; it may change.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description: The duration.
    type: str
    required: true
  name:
    description: Name of the variable, for the error.
    type: str
    default: ""
positional: _input, name
"""

EXAMPLES = r"""
- name: Wait for half an hour
  ansible.builtin.wait_for:
    timeout: "{{ '30m' | tpu.fleet.seconds }}"
"""

RETURN = r"""
_value:
  description: The seconds.
  type: int
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._schema import durations


def seconds(value: Any, name: str = "") -> int:
    """Return the seconds of a duration; the error names the variable that has it."""
    try:
        return durations.seconds(value)
    except ValueError as error:
        raise AnsibleFilterError(f"{name} = {error}" if name else str(error)) from None


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"seconds": seconds}
