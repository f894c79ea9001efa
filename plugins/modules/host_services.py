#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_services
short_description: Run programs of users as systemd services
description:
  - Writes the unit of each service, starts it, and waits until it listens on its port. One
    that does not come up is an error that shows the end of its log.
options:
  role: {description: Role that declares the services., type: str, required: true}
  start_timeout:
    description: Seconds that a service may take until it listens.
    type: int
    default: 300
  services:
    description: The services, each with the fields of C(_host/services.Service).
    type: list
    elements: dict
    default: []
  tokens:
    description: 'Tokens of services that keep one, by name, where they are not to be made here.'
    type: dict
    default: {}
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Serve a folder to those who can log in
  tpu.fleet.host_services:
    role: my_role
    services:
      - name: files
        description: Files of alice
        user: alice
        command: [/usr/bin/python3, -m, http.server, --bind, 127.0.0.1, "8000"]
        port: 8000
"""

RETURN = r"""#"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError
from ..module_utils._host.services import SERVICES_DIR, UNIT_DIR
from ..module_utils._host.services_act import note_start, prepared, remove, start, wait_for
from ..module_utils._host.services_look import (
    described,
    differences,
    look,
    properties,
    stale,
    units_of,
)
from ..module_utils._host.work import Failed


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "start_timeout": {"type": "int", "default": 300},
            "services": {"type": "list", "elements": "dict", "default": []},
            # Not in the services: Ansible writes those to the journal, where it hides a value only
            # as it is, and not as Python quotes it.
            "tokens": {"type": "dict", "default": {}, "no_log": True},
        },
        supports_check_mode=True,
    )
    role = module.params["role"]
    tokens = module.params["tokens"]
    entries, problems = described(role, module.params["services"], tokens)
    try:
        facts = properties(units_of(entries))
        for entry in entries:
            look(entry, facts)
        gone = stale(role, {params["name"] for params in module.params["services"]})
        found = differences(entries, gone)
        result = {
            "changed": bool(found),
            "diff": found,
            "services": {entry.service.name: entry.todo or "unchanged" for entry in entries},
            "removed": gone,
        }
        if module.check_mode:
            if problems:
                raise Failed("; ".join(problems))
            module.exit_json(**result)
        for name in gone:
            remove(name)
        if entries:
            Path(SERVICES_DIR).mkdir(parents=True, exist_ok=True)
        entries, unprepared = prepared(entries)
        problems += unprepared
        reload = any(change["before_header"].startswith(UNIT_DIR) for change in found) or bool(gone)
        reload |= any(f.get("NeedDaemonReload") == "yes" for f in facts.values())
        start(entries, reload)
        problems += wait_for(
            [entry for entry in entries if entry.service.enabled], module.params["start_timeout"]
        )
        if problems:
            raise Failed("; ".join(problems))
        for entry in entries:
            if entry.service.enabled:
                note_start(entry)
    except (Failed, UserError, OSError) as error:
        module.fail_json(msg=f"{role}: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
