#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: project_ssh_key
short_description: Let a person log in to all machines of a project
version_added: 0.1.0
description:
  - Adds a public key to the project's metadata, from which every machine of the project reads
    it, TPU VMs included; or takes it out again. Run it on the controller.
  - All other keys and all other metadata stay as they are, even if another program changes them
    at the same moment.
extends_documentation_fragment:
  - tpu.fleet.attributes
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  user:
    description: Login that the key opens. The machines create it; its holder may use sudo there.
    type: str
    required: true
  key:
    description: The public key, the one line of the C(.pub) file.
    type: str
    required: true
  state:
    description: V(absent) removes this user's line with this key, whatever its comment.
    type: str
    choices: [present, absent]
    default: present
notes:
  - A key in the project's metadata opens all machines of the project. A key for one slice alone is
    the option O(tpu.fleet.tpu_vm#module:ssh_keys) of that slice.
  - The account needs the permission C(compute.projects.setCommonInstanceMetadata).
"""

EXAMPLES = r"""
- name: Let Alice in
  tpu.fleet.project_ssh_key:
    user: alice
    key: "{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"

- name: Keep Bob out from now on
  tpu.fleet.project_ssh_key:
    user: bob
    key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHfGJ5hQ9zjPzM4Z8f1oTzqkzV6Uj5s7p3Zt1eX2yW3v bob
    state: absent
"""

RETURN = r"""
users:
  description: Logins for which the project's metadata have keys, in check mode as it would be.
  returned: success
  type: list
  elements: str
"""

import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run
from ..module_utils._compute.client import Compute, values_of
from ..module_utils._core.errors import BadRequest
from ..module_utils._google.apis import GoogleApis
from ..module_utils._schema import values as rules
from ..module_utils._tpu.client import Client
from ..module_utils._tpu.node_spec import SSH_KEYS, merge_keys


def line_of(user: str, key: str) -> str:
    """Return the line of the metadata; raise what is wrong with user or key."""
    problem = None if user == "root" else rules.user_name(user)
    if problem:
        raise BadRequest(
            f"The user {user!r} {problem}.",
            remedy="Use a-z, 0-9, - and _, beginning with a letter, at most 32 characters.",
        )
    problem = rules.public_key(key.strip())
    if problem:
        raise BadRequest(
            f"The key {problem}.",
            remedy="Give the one line of the .pub file: ssh-ed25519 AAAA… comment.",
        )
    return f"{user}:{key.strip()}"


def lines_with(lines: list[str], line: str, state: str) -> list[str]:
    """Return the lines with one in it or without it; all others stay as they are."""
    here = tuple(line.split()[:2])
    there = any(tuple(other.split()[:2]) == here for other in lines)
    if state == "absent":
        return [other for other in lines if tuple(other.split()[:2]) != here]
    return lines if there else merge_keys(lines, [line])


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Put the key in, or take it out."""
    line, state = line_of(module.params["user"], module.params["key"]), module.params["state"]
    compute = Compute(GoogleApis(client))
    values = values_of(compute.metadata())
    _warn(module, values)

    def alter(values: dict[str, str]) -> dict[str, str] | None:
        before = values.get(SSH_KEYS, "").splitlines()
        after = lines_with(before, line, state)
        return None if after == before else {**values, SSH_KEYS: "\n".join(after)}

    wanted = alter(values)
    if wanted is not None and not module.check_mode:
        compute.change_metadata(alter)
    before, after = values.get(SSH_KEYS, ""), (wanted or values).get(SSH_KEYS, "")
    return {
        "changed": wanted is not None,
        "users": sorted({item.partition(":")[0] for item in after.splitlines() if ":" in item}),
        "diff": {"before": _ended(before), "after": _ended(after)} if wanted is not None else {},
    }


def _warn(module: AnsibleModule, values: dict[str, str]) -> None:
    if re.fullmatch(r"true|1|y|yes", values.get("enable-oslogin", ""), re.IGNORECASE):
        module.warn(
            "The project says enable-oslogin: its machines take no keys from metadata, unless they "
            "say enable-oslogin=FALSE themselves."
        )


def _ended(text: str) -> str:
    return f"{text}\n" if text else ""


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION, {"key": {"no_log": False}}), execute)


if __name__ == "__main__":
    main()
