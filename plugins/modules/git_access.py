#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: git_access
short_description: Manage git keys, hosts and settings of users
version_added: 0.1.0
description:
  - Does in one step what the role P(tpu.fleet.git_access#role) declares.
  - Keys and settings in a home are written, read and removed with the rights of its owner.
  - What was made before and is not declared any more is removed.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  keys:
    description: The keys.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the key., type: str, required: true}
      users: {description: Users who get the key., type: list, elements: str, required: true}
      source:
        description: Where it comes from.
        type: str
        choices: [user, machine, shared]
        default: user
      host: {description: Git server., type: str, default: github.com}
      register:
        description: How it is registered at the server.
        type: str
        choices: [none, user, deploy]
        default: none
      repository: {description: The repository of a deploy key., type: str}
  private_keys:
    description:
      - Private keys of the shared ones, by name.
      - They stand apart, for what Ansible writes into the journal of the host hides whole arguments
        for certain, but a text of several lines inside of one it does not find again.
    type: dict
    default: {}
  identities:
    description: Name and address of each user in git.
    type: list
    elements: dict
    default: []
    suboptions:
      user: {description: Login., type: str, required: true}
      name: {description: Name in commits., type: str}
      email: {description: Mail address in commits., type: str}
      config: {description: Further settings., type: dict, default: {}}
      safe_directories: {description: Folders of others., type: list, elements: str, default: []}
      lfs: {description: Whether to use git-lfs., type: bool, default: false}
  hosts:
    description: Git servers besides GitHub and GitLab.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name in URLs., type: str, required: true}
      hostname: {description: Where to connect., type: str}
      port: {description: Port., type: int, default: 22}
      login: {description: Login., type: str, default: git}
      keys: {description: Public host keys., type: list, elements: str, required: true}
  elsewhere:
    description: Users who are not to be on this host. They have no key and no settings here.
    type: list
    elements: str
    default: []
  host:
    description: Name of this host in the comments of the keys made here.
    type: str
    required: true
  state_dir:
    description: Folder of the state.
    type: path
    default: /var/lib/tpu-fleet
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows files before and after; of a private key only its fingerprint.
    support: full
"""

EXAMPLES = r"""
- name: Give Alice a key for GitHub
  tpu.fleet.git_access:
    host: solo
    keys:
      - name: work
        users: [alice]
    identities:
      - user: alice
        name: Alice Example
        email: alice@example.org
"""

RETURN = r"""
changed_paths:
  description: What was changed.
  type: list
  elements: str
  returned: always
users:
  description: Public keys and more, by user, as they are in C(git_access.json).
  type: dict
  returned: always
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError
from ..module_utils._roles.git_access.apply import Host, bring_about

KEY_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "users": {"type": "list", "elements": "str", "required": True},
    "source": {"type": "str", "choices": ["user", "machine", "shared"], "default": "user"},
    "host": {"type": "str", "default": "github.com"},
    "register": {"type": "str", "choices": ["none", "user", "deploy"], "default": "none"},
    "repository": {"type": "str"},
}
IDENTITY_SPEC: dict[str, Any] = {
    "user": {"type": "str", "required": True},
    "name": {"type": "str"},
    "email": {"type": "str"},
    "config": {"type": "dict", "default": {}},
    "safe_directories": {"type": "list", "elements": "str", "default": []},
    "lfs": {"type": "bool", "default": False},
}
HOST_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "hostname": {"type": "str"},
    "port": {"type": "int", "default": 22},
    "login": {"type": "str", "default": "git"},
    "keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "keys": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": KEY_SPEC,
                "no_log": False,
            },
            "private_keys": {"type": "dict", "default": {}, "no_log": True},
            "identities": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": IDENTITY_SPEC,
            },
            "hosts": {"type": "list", "elements": "dict", "default": [], "options": HOST_SPEC},
            "elsewhere": {"type": "list", "elements": "str", "default": []},
            "host": {"type": "str", "required": True},
            "state_dir": {"type": "path", "default": "/var/lib/tpu-fleet"},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    for entry in module.params["keys"]:
        entry["private_key"] = module.params["private_keys"].get(entry["name"])
    host = Host(module.params["host"], module.check_mode)
    try:
        recorded = bring_about(host, module.params)
    except (UserError, OSError) as error:
        module.fail_json(msg=f"{error}.", changed_paths=host.changed_paths())
    if host.problems:
        module.fail_json(
            msg=f"git_access: {'; '.join(host.problems)}. Everybody else is set up.",
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
