#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: data_disks
short_description: Format empty data disks and mount them by UUID
version_added: 0.1.0
description:
  - Brings all data disks of a host to the declared state in one step. Finds each by its id, makes a
    file system on an empty one, mounts it by UUID with C(nofail), and grows the file system when
    the disk has grown.
  - A disk is empty when it has no signature, no partition, no user, and nothing but zeros where the
    module looks. Everything else is refused, unless this module made it (its UUID is made of the
    disk's name), or O(disks[].adopt) is set. Then nothing at all is changed.
  - Lines of C(/etc/fstab) with the option C(x-tpu-fleet.disk) that are not declared any more are
    removed, and their disks unmounted. Data are never deleted.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  disks:
    description: The disks of this host.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the disk. Its device is C(/dev/disk/by-id/google-NAME).
        type: str
        required: true
      mount:
        description: Where to mount it.
        type: str
        required: true
      device:
        description: Another device, as a name below C(/dev/disk/by-id) or a whole path.
        type: str
      filesystem:
        description: File system for an empty disk.
        type: str
        choices: [ext4, xfs]
        default: ext4
      read_only:
        description: Whether to mount it read-only.
        type: bool
        default: false
      owner:
        description: Owner of the top folder of a new file system.
        type: str
        default: root
      group:
        description: Its group; the owner's by default.
        type: str
      mode:
        description: Its permissions.
        type: str
        default: "0755"
      options:
        description: More mount options.
        type: list
        elements: str
        default: []
      adopt:
        description: Whether to mount a file system that was made by others.
        type: bool
        default: false
  attached:
    description:
      - What the API says is attached, in this order, each with C(sourceDisk). Finds a disk where
        its device carries no name, only the number of its place.
    type: list
    elements: dict
    default: []
  timeout:
    description: Seconds to wait for devices that are not there yet.
    type: int
    default: 30
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Lists the steps, and the lines of C(/etc/fstab) before and after.
    support: full
"""

EXAMPLES = r"""
- name: Mount the checkpoints
  tpu.fleet.data_disks:
    disks:
      - name: checkpoints
        mount: /mnt/checkpoints
        owner: alice
"""

RETURN = r"""
steps:
  description: What was done, in order.
  type: list
  elements: str
  returned: always
missing_packages:
  description: Packages that are needed first. If there are any, nothing was done.
  type: list
  elements: str
  returned: always
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.work import Failed, difference
from ..module_utils._roles.data_disk.act import Host
from ..module_utils._roles.data_disk.look import FSTAB, look, missing_packages, places_of_others
from ..module_utils._roles.data_disk.plan import Wanted, declared_problems, plan

DISK_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "mount": {"type": "str", "required": True},
    "device": {"type": "str"},
    "filesystem": {"type": "str", "choices": ["ext4", "xfs"], "default": "ext4"},
    "read_only": {"type": "bool", "default": False},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str"},
    "mode": {"type": "str", "default": "0755"},
    "options": {"type": "list", "elements": "str", "default": []},
    "adopt": {"type": "bool", "default": False},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "disks": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": DISK_SPEC,
            },
            "attached": {"type": "list", "elements": "dict", "default": []},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    params = module.params
    wanted = [Wanted(**{**entry, "options": tuple(entry["options"])}) for entry in params["disks"]]
    problems = declared_problems(wanted) or places_of_others(wanted)
    if problems:
        module.fail_json(msg="\n".join(problems))
    try:
        seen = look(module.run_command, wanted, params["attached"], params["timeout"])
    except Failed as error:
        module.fail_json(msg=str(error))
    todo = plan(wanted, seen)
    if todo.problems:
        module.fail_json(msg="\n".join(todo.problems))
    missing = missing_packages(todo.steps)
    texts = [step.text for step in todo.steps]
    mine = "".join(f"{line.text}\n" for line in seen.fstab if line.disk)
    after = "".join(f"{line}\n" for line in todo.lines)
    shown = {**difference(FSTAB, mine, after), "prepared": "".join(f"{text}\n" for text in texts)}
    if missing and not module.check_mode:
        module.exit_json(changed=False, steps=[], missing_packages=missing)
    if not module.check_mode:
        host = Host(module.run_command, wanted, seen, todo)
        for done, step in enumerate(todo.steps):
            try:
                host.do(step)
            except (OSError, Failed) as error:
                module.fail_json(
                    msg=f"data_disk_disks: disk {step.disk!r}: cannot {step.text}: {error}.",
                    steps=texts[:done],
                )
    module.exit_json(changed=bool(todo.steps), steps=texts, missing_packages=missing, diff=shown)


if __name__ == "__main__":
    main()
