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
    description: The services.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the service; its unit is C(tpu-fleet-NAME.service).
        type: str
        required: true
      description: {description: Short description of the service., type: str, required: true}
      user: {description: Linux user that it runs as., type: str, required: true}
      command:
        description: >-
          Program and arguments. No shell reads them, and they are no place for secrets.
        type: list
        elements: str
        required: true
      before_start:
        description: 'Programs, with their arguments, that must succeed before each start.'
        type: list
        elements: list
        default: []
      workdir: {description: Its folder. V(~) is the home of the user., type: str, default: '~'}
      environment:
        description: Environment variables that all users may see.
        type: dict
        default: {}
      environment_files:
        description: >-
          Files with environment variables that only the user may see. Of a set of role
          P(tpu.fleet.env_secrets#role) that names secrets in Google Secret Manager, those
          are fetched before each start.
        type: list
        elements: path
        default: []
      memory_max:
        description: 'Most memory that it may use, as systemd writes it.'
        type: str
        default: ''
      hardening:
        description: Whether it may never gain rights that its user has not.
        type: bool
        default: true
      stop_seconds: {description: Seconds that it has to end., type: int, default: 30}
      address: {description: Address on which it listens., type: str, default: 127.0.0.1}
      port: {description: Port on which it listens. V(0) waits for none., type: int, default: 0}
      loopback_only:
        description: Whether it is an error when it listens on any other address.
        type: bool
        default: true
      proxied:
        description: >-
          Whether systemd listens on O(services[].port) of the loopback addresses, before
          any user's program runs, and passes connections on to the UNIX socket
          C(/run/tpu-fleet/NAME/http), on which the program listens. If another process
          has the port, that is an error, and a generated token is replaced.
        type: bool
        default: false
      venv: {description: Python environment that it runs in., type: str, default: ''}
      restart_on_upgrade:
        description: Whether it is restarted when that environment was changed.
        type: bool
        default: false
      enabled:
        description: 'Whether it runs, now and after every boot.'
        type: bool
        default: true
      patience:
        description: How many times it may end while it is waited for.
        type: int
        default: 3
      folders:
        description: 'Folders to make, as the user, where they are missing.'
        type: list
        elements: path
        default: []
      private_folders:
        description: 'Folders to make for the user alone, by root, where they are missing.'
        type: list
        elements: path
        default: []
      files:
        description: 'Files in a folder of its own, C(/etc/tpu-fleet/services/NAME.d).'
        type: list
        elements: dict
        default: []
        suboptions:
          name: {description: Path below that folder., type: str, required: true}
          content: {description: What is in it., type: str, required: true}
          if_found:
            description: Pattern. The file is only written where something matches.
            type: str
            default: ''
      needs:
        description: What must be there before it is started.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: 'A path, or a pattern that something must match.'
            type: str
            required: true
          remedy: {description: What to do when it is missing., type: str, required: true}
      keep_token:
        description: >-
          Whether a token is kept in C(/etc/tpu-fleet/services/NAME.token), for the user
          alone. A missing token is created.
        type: bool
        default: false
      facts: {description: Further facts for all users., type: dict, default: {}}
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
from typing import Any

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

SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "description": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
    "command": {"type": "list", "elements": "str", "required": True},
    "before_start": {"type": "list", "elements": "list", "default": []},
    "workdir": {"type": "str", "default": "~"},
    "environment": {"type": "dict", "default": {}},
    "environment_files": {"type": "list", "elements": "path", "default": []},
    "memory_max": {"type": "str", "default": ""},
    "hardening": {"type": "bool", "default": True},
    "stop_seconds": {"type": "int", "default": 30},
    "address": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "default": 0},
    "loopback_only": {"type": "bool", "default": True},
    "proxied": {"type": "bool", "default": False},
    "venv": {"type": "str", "default": ""},
    "restart_on_upgrade": {"type": "bool", "default": False},
    "enabled": {"type": "bool", "default": True},
    "patience": {"type": "int", "default": 3},
    "folders": {"type": "list", "elements": "path", "default": []},
    "private_folders": {"type": "list", "elements": "path", "default": []},
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "content": {"type": "str", "required": True},
            "if_found": {"type": "str", "default": ""},
        },
    },
    "needs": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "required": True},
            "remedy": {"type": "str", "required": True},
        },
    },
    "keep_token": {"type": "bool", "default": False, "no_log": False},
    "facts": {"type": "dict", "default": {}},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "start_timeout": {"type": "int", "default": 300},
            "services": {"type": "list", "elements": "dict", "default": [], "options": SPEC},
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
