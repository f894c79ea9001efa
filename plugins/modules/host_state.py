#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_state
short_description: Record on a host what was applied to it
description:
  - Keeps C(state.json) in the state folder of a host, always written as a whole.
options:
  section:
    description: 'Name of the section, for example that of a role.'
    type: str
    required: true
  hash: {description: Hash of what was applied., type: str, required: true}
  notes: {description: What else a reader should know about it., type: dict, default: {}}
  node_uid:
    description: Id of the node; a recreated node has another one. An empty one is not recorded.
    type: str
    default: ''
  ready:
    description: Whether to stamp the marker file C(ready) with the id of this boot.
    type: bool
    default: false
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Record what was applied
  tpu.fleet.host_state:
    section: host_base
    hash: "{{ fleet_base_packages | to_json | hash('sha256') }}"
    ready: true
"""

RETURN = r"""#"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.state import (
    STATE_DIR,
    as_json,
    boot_id,
    read_text,
    record,
    write_atomically,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "section": {"type": "str", "required": True},
            "hash": {"type": "str", "required": True},
            "notes": {"type": "dict", "default": {}},
            "node_uid": {"type": "str", "default": ""},
            "ready": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    this_boot = boot_id()
    identity = {"boot_id": this_boot} if params["ready"] else {}
    if params["node_uid"]:
        identity["node_uid"] = params["node_uid"]
    facts = {"hash": params["hash"], **({"notes": params["notes"]} if params["notes"] else {})}
    marker = Path(STATE_DIR, "ready")
    try:
        before, after = record(
            params["section"],
            facts,
            identity=identity,
            dry=module.check_mode,
        )
        stale = params["ready"] and read_text(marker) != this_boot + "\n"
        if stale and not module.check_mode:
            write_atomically(marker, this_boot + "\n")
    except OSError as error:
        module.fail_json(
            msg=f"Cannot record in {STATE_DIR} what was applied: {error}. What was there "
            "before still is. Make room or repair the file system, and run this again."
        )
    module.exit_json(
        changed=before != after or stale,
        state=after,
        diff={
            "before_header": "state.json",
            "after_header": "state.json",
            "before": as_json(before),
            "after": as_json(after),
        },
    )


if __name__ == "__main__":
    main()
