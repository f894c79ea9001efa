# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the environments of several workers."""

from __future__ import annotations

DOCUMENTATION = r"""
name: venv_differences
short_description: List how the Python environments of a slice's workers differ
version_added: 0.1.0
description:
  - Compares what M(tpu.fleet.python_venv) built on the workers of one slice.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: slice
options:
  _input:
    description:
      - Variables of the workers, with the result of M(tpu.fleet.python_venv) as
        C(__python_env_built).
    type: list
    elements: dict
    required: true
  slice:
    description: Name of the slice; workers of others are left out.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Check that all workers have the same
  ansible.builtin.assert:
    that: ansible_play_hosts | map('extract', hostvars) | tpu.fleet.venv_differences('pair') == []
"""

RETURN = r"""
_value:
  description: One text for each worker and environment; it names the worker and the packages.
  type: list
  elements: str
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..module_utils._venvs import differences


def venv_differences(workers: Iterable[Mapping[str, Any]], slice: str) -> list[str]:
    """List the differences between the workers of a slice."""
    found = []
    for worker in workers:
        built = worker["__python_env_built"]
        if built.get("slice") == slice:
            venvs = built.get("venvs", {})
            found.append({"host": worker["inventory_hostname"], "slice": slice, "venvs": venvs})
    return differences(found)


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"venv_differences": venv_differences}
