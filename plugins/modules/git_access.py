#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: git_access
short_description: Set up git for the users of a TPU VM
description:
  - Does on the machine what the role P(tpu.fleet.git_access#role) declares.
options:
  elsewhere:
    description: Users without access to this slice.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Set up git for the users of a TPU VM
  tpu.fleet.git_access: "{{ 'git_access' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

import os

from ..module_utils._ansible.role_module import role_module
from ..module_utils._host.as_user import UserError
from ..module_utils._roles.git_access.apply import Host, bring_about


def main() -> None:
    """Run the module."""
    module, settings = role_module(elsewhere={"type": "list", "elements": "str", "default": []})
    os.umask(0o022)
    host = Host(settings["host"], module.check_mode)
    try:
        recorded = bring_about(host, settings, module.params["elsewhere"])
    except (UserError, OSError) as error:
        module.fail_json(msg=f"{error}.", changed_paths=host.changed_paths())
    if host.problems:
        module.fail_json(
            msg=f"git_access: {'; '.join(host.problems)}. All others are set up.",
            changed_paths=host.changed_paths(),
        )
    module.exit_json(
        changed=bool(host.changes),
        changed_paths=host.changed_paths(),
        users=recorded["users"],
        diff=host.changes,
    )


if __name__ == "__main__":
    main()
