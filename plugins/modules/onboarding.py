#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: onboarding
short_description: Write the onboarding folders
version_added: 0.1.0
description:
  - Writes for every user a text that says how to use the fleet, and a folder for C(~/.ssh) with
    names, host keys and addresses of their machines.
  - The folder of a removed user is deleted.
  - What is not given is taken from the inventory and the variables of the fleet file.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  folder:
    description: Where; each user gets a folder in it.
    type: path
    required: true
  users:
    description: The users, as P(tpu.fleet.user_accounts#role) takes them.
    type: list
    elements: dict
    default: []
  machines:
    description: The machines, as the inventory knows them.
    type: list
    elements: dict
    default: []
    suboptions:
      host: {description: Name in the inventory., type: str, required: true}
      slice: {description: Name of the slice., type: str, required: true}
      worker: {description: Number in the slice., type: int, required: true}
      workers: {description: How many the slice has., type: int, required: true}
      zone: {description: Zone., type: str}
      project: {description: Project., type: str}
      kind: {description: Accelerator type., type: str}
      address: {description: What ssh connects to., type: str, required: true}
      internal: {description: Address inside of Google's network., type: str}
      options: {description: Options with which ssh verifies it., type: dict, default: {}}
  finder:
    description: The program that finds new addresses.
    type: str
    required: true
  data:
    description:
      - What is on the machines, by kind; C(runs), C(venvs), C(shares), C(disks), C(buckets),
        C(notebooks) and C(boards), each as its role takes it.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows the texts before and after.
    support: full
"""

EXAMPLES = r"""
- name: Write what people need
  tpu.fleet.onboarding:
    folder: ~/.local/state/tpu-fleet/onboarding
    users: "{{ fleet_users }}"
    finder: "{{ lookup('ansible.builtin.file', 'find') }}"
    machines:
      - host: solo
        slice: solo
        worker: 0
        workers: 1
        address: 192.0.2.7
"""

RETURN = r"""
folders:
  description: The folder of each user.
  type: dict
  returned: always
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.options import spec_of
from ..module_utils._host.state import read_text, write_atomically
from ..module_utils._inventory.onboarding import FOLDER, Machine, guide, machines_of, ssh_files


class KnownHosts:
    """The verified keys of machines, in the files that the inventory keeps."""

    def __init__(self) -> None:
        self._files: dict[str, dict[str, list[str]]] = {}

    def keys_of(self, facts: Mapping[str, Any]) -> list[str]:
        """Return the lines of a machine. The workers of a slice are in one file."""
        options = facts["options"]
        path = str(options.get("UserKnownHostsFile", "")).strip('"').replace("%%", "%")
        if path not in self._files:
            lines = self._files[path] = {}
            for line in ((read_text(path) if path else None) or "").splitlines():
                lines.setdefault(line.split(" ", 1)[0], []).append(line)
        return self._files[path].get(str(options.get("HostKeyAlias")), [])


def write(params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Write what is not there yet, remove what should not be; return the result."""
    top = Path(params["folder"])
    known = KnownHosts()
    machines = [Machine.from_facts(facts, known.keys_of(facts)) for facts in params["machines"]]
    wanted: dict[Path, str] = {}
    folders = {}
    for user in params["users"]:
        if user.get("state") == "absent":
            continue
        here = machines_of(user, machines)
        folders[user["name"]] = str(top / user["name"])
        wanted[top / user["name"] / "README.txt"] = guide(user, here, params["data"])
        files = ssh_files(user["name"], here, params["finder"])
        for name, content in files.items():
            wanted[top / user["name"] / FOLDER / name] = content

    differences = []
    for path, content in wanted.items():
        before = read_text(path)
        if before == content:
            continue
        differences.append(
            {
                "before_header": str(path),
                "after_header": str(path),
                "before": before or "",
                "after": content,
            }
        )
        if not check_mode:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, content, mode=0o600, uid=os.getuid(), gid=os.getgid())
    for left in sorted(top.iterdir()) if top.is_dir() else ():
        if left.name not in folders and (left / FOLDER / "machines").is_file():
            differences.append({"before": f"{left}\n", "after": ""})
            if not check_mode:
                shutil.rmtree(str(left))
    return {"changed": bool(differences), "folders": folders, "diff": differences}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=spec_of(DOCUMENTATION), supports_check_mode=True)
    module.exit_json(**write(module.params, module.check_mode))


if __name__ == "__main__":
    main()
