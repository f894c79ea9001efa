# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain a failed installation of packages."""

from __future__ import annotations

DOCUMENTATION = r"""
name: apt_trouble
short_description: Explain why packages could not be installed
version_added: 0.1.0
description:
  - Explains the result of a failed M(ansible.builtin.apt) task (a full disk, a lock of another
    process, an unknown package, an unreachable package index), with the remedy.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description: The result.
    type: dict
    required: true
  variables:
    description:
      - Variables that name packages, each with its list.
      - The explanation names the one that has the unknown package.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Install packages, or say what was in the way
  block:
    - name: Install packages
      ansible.builtin.apt:
        name: zsh
  rescue:
    - name: Say what was in the way
      ansible.builtin.fail:
        msg: "{{ ansible_failed_result | tpu.fleet.apt_trouble }}"
"""

RETURN = r"""
_value:
  description: Cause, remedy, and what apt said.
  type: str
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..module_utils._roles.host_base.apt_trouble import explain


def apt_trouble(
    result: Mapping[str, Any], variables: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Explain the result of a failed installation."""
    return explain(result, variables)


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name them."""
        return {"apt_trouble": apt_trouble}
