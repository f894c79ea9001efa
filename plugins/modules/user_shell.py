#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: user_shell
short_description: Set up shells, tools and dotfiles of users
description:
  - Does on the machine what the role P(tpu.fleet.user_shell#role) declares.
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Set up the shells
  tpu.fleet.user_shell: "{{ 'user_shell' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

from ansible.module_utils.urls import open_url

from ..module_utils._ansible.role_module import role_module
from ..module_utils._apply_agent.named import DOTFILES
from ..module_utils._host.work import Failed
from ..module_utils._roles.user_shell.apply import Shells


def fetch(url: str, most: int) -> bytes:
    """Get at most so many bytes from an address."""
    return bytes(open_url(url, timeout=60).read(most))


def main() -> None:
    """Run the module."""
    module, settings = role_module()
    shells = Shells(settings, module.check_mode, DOTFILES, fetch)
    try:
        shells.bring_about()
    except (Failed, OSError) as error:
        module.fail_json(msg=f"{error}", changes=shells.changes)
    for note in shells.notes:
        module.warn(note)
    module.exit_json(
        changed=bool(shells.changes),
        changes=shells.changes,
        notes=shells.notes,
        dotfiles=shells.dotfiles,
        diff={"before": "", "after": "".join(f"{change}\n" for change in shells.changes)},
    )


if __name__ == "__main__":
    main()
