# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell one OpenPGP key from another."""

from __future__ import annotations

DOCUMENTATION = r"""
name: key_fingerprint
short_description: Read the fingerprint of an OpenPGP public key
version_added: 0.1.0
description:
  - Needs no gpg. Knows keys of version 4, as package sources have them.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description: The key in ASCII armour.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Check a key
  ansible.builtin.assert:
    that: key | tpu.fleet.key_fingerprint == 'F23C5A6CF475977595C89F51BA6932366A755776'
"""

RETURN = r"""
_value:
  description: The fingerprint in capitals, or an empty text for what is no such key.
  type: str
"""

from collections.abc import Callable

from ..module_utils._roles.python_env.openpgp import fingerprint


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[[str], str]]:
        """Name the filters."""
        return {"key_fingerprint": fingerprint}
