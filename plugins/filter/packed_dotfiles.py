# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read packed dotfiles of the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: packed_dotfiles
short_description: Read packed dotfiles of the controller
version_added: 0.1.0
description:
  - Makes what O(tpu.fleet.user_shell#role:main:user_shell_snapshots) takes.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description:
      - RV(tpu.fleet.snapshots#module:dotfiles).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Keep them for the role
  ansible.builtin.set_fact:
    user_shell_snapshots: "{{ fleet_packed.dotfiles | tpu.fleet.packed_dotfiles }}"
"""

RETURN = r"""
_value:
  description: C(digest) and C(archive) by the name of the user.
  type: dict
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


def packed_dotfiles(packed: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Read the archives."""
    return {
        one["user"]: {
            "digest": one["digest"],
            "archive": b64encode(Path(one["archive"]).read_bytes()).decode(),
        }
        for one in packed
    }


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"packed_dotfiles": packed_dotfiles}
