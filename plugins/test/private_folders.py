# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look whether folders of the controller are as they have to be, without calling a module."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from pathlib import Path

DOCUMENTATION = r"""
name: private_folders
short_description: Are these folders of the controller there, and their owner's alone?
version_added: 0.1.0
description:
  - Tells whether all of these are folders of the controller with mode 0700. To ask a module takes
    half a second, and every playbook asks.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description: The folders.
    type: list
    elements: path
    required: true
"""

EXAMPLES = r"""
- name: Make the folder
  ansible.builtin.file:
    path: "{{ fleet_state_dir }}"
    state: directory
    mode: "0700"
  when: "[fleet_state_dir] is not tpu.fleet.private_folders"
"""

RETURN = r"""
_value:
  description: Whether they are.
  type: bool
"""


def private_folders(paths: Iterable[str]) -> bool:
    """Look at them."""
    return all(_is_private(Path(path).expanduser()) for path in paths)


def _is_private(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and stat.S_IMODE(mode) == 0o700


class TestModule:
    """What Ansible asks for the tests of this file."""

    def tests(self) -> dict[str, Callable[[Iterable[str]], bool]]:
        """Name the tests."""
        return {"private_folders": private_folders}
