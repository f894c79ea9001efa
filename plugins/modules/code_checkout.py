#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: code_checkout
short_description: Install versions of code trees
description:
  - Does on the machine what the role P(tpu.fleet.code_checkout#role) declares.
options:
  state:
    description: V(looked) compares declared and installed versions, V(present) installs.
    type: str
    choices: [looked, present]
    default: present
  versions:
    description: Versions by the name of the tree, as an earlier call or a worker found them.
    type: dict
    default: {}
  incoming:
    description: Folder of the snapshots that were copied to the host.
    type: path
    default: /var/lib/tpu-fleet/code/incoming
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Install versions of code trees
  tpu.fleet.code_checkout: "{{ 'code_checkout' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

from typing import Any

from ..module_utils._ansible.role_module import role_module
from ..module_utils._host.as_user import UserError
from ..module_utils._roles.code_checkout import plan as rules
from ..module_utils._roles.code_checkout.apply import Apply


def declared_problems(entries: list[dict[str, Any]]) -> list[str]:
    """Say what is wrong with the trees themselves."""
    found = []
    for index, entry in enumerate(entries):
        for key, message, remedy in rules.problems_of(entry):
            where = f"fleet_code[{index}]" + (f".{key}" if key else "")
            found.append(f"{where} ({entry['name']}): {message}. {remedy}.")
    return found


def main() -> None:
    """Run the module."""
    module, settings = role_module(
        state={"type": "str", "choices": ["looked", "present"], "default": "present"},
        versions={"type": "dict", "default": {}},
        incoming={"type": "path", "default": "/var/lib/tpu-fleet/code/incoming"},
    )
    problems = declared_problems(settings["trees"])
    if problems:
        module.fail_json(msg="Nothing was changed. " + " ".join(problems), problems=problems)
    given = {name: module.params[name] for name in ("versions", "incoming")}
    apply = Apply({**settings, **given}, module.check_mode)
    apply.look()
    if module.params["state"] == "present":
        try:
            apply.put()
        except UserError as error:
            apply.problems.append(f"old versions stay: {error}")
        if apply.problems:
            module.fail_json(msg="; ".join(apply.problems), problems=apply.problems)
    module.exit_json(
        changed=bool(apply.before or apply.after),
        problems=apply.problems,
        versions=apply.versions,
        missing=sorted(set(apply.missing)),
        contents=apply.contents,
        changes=apply.changes,
        kept=apply.kept,
        records=apply.records,
        diff={"before": "".join(apply.before), "after": "".join(apply.after)},
    )


if __name__ == "__main__":
    main()
