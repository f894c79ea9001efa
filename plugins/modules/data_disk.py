#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: data_disk
short_description: Format and mount data disks
description:
  - Does on the machine what the role P(tpu.fleet.data_disk#role) declares.
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Format and mount data disks
  tpu.fleet.data_disk: "{{ 'data_disk' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

from ..module_utils._ansible.role_module import role_module
from ..module_utils._host.work import Failed, difference
from ..module_utils._roles.data_disk.act import Host
from ..module_utils._roles.data_disk.look import FSTAB, look, missing_packages, places_of_others
from ..module_utils._roles.data_disk.plan import plan, wanted_here


def main() -> None:
    """Run the module."""
    module, settings = role_module()
    wanted = wanted_here(settings["disks"], settings["slice"], settings["worker_index"])
    problems = places_of_others(wanted)
    if problems:
        module.fail_json(msg="\n".join(problems))
    try:
        seen = look(module.run_command, wanted, settings["attached"], settings["device_timeout"])
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
                    msg=f"fleet_disks: disk {step.disk!r}: cannot {step.text}: {error}.",
                    steps=texts[:done],
                )
    module.exit_json(changed=bool(todo.steps), steps=texts, missing_packages=missing, diff=shown)


if __name__ == "__main__":
    main()
