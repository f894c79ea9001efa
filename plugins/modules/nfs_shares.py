#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_shares
short_description: Export and mount the NFS shares of a TPU worker
version_added: 0.1.0
description:
  - Makes this host export and mount what the shares say, in one step, over NFSv4 alone.
  - Shares of an earlier run that are no longer declared are unmounted and removed. Files on a
    share are never touched, nor exports and mounts that others made.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  phase:
    description:
      - V(apply) writes exports and units and starts them.
      - V(probe) changes nothing, and says which shares do not answer.
    type: str
    choices: [apply, probe]
    default: apply
  shares:
    description: The shares, as P(tpu.fleet.nfs_share#role) takes them.
    type: list
    elements: dict
    required: true
  hosts:
    description: All workers of the fleet, each with C(slice), C(worker), C(zone) and C(address).
    type: list
    elements: dict
    default: []
  slice:
    description: Name of the slice that this host belongs to.
    type: str
    required: true
  worker:
    description: Which worker of its slice this host is.
    type: int
    default: 0
  zone:
    description: Zone of this host.
    type: str
    default: ''
  timeout:
    description: Seconds after which a program gets an error when the server does not answer.
    type: int
    default: 30
  mount_timeout:
    description: Seconds after which an attempt to mount is given up.
    type: int
    default: 15
  idle_timeout:
    description: Seconds after which an unused share is unmounted. 0 for never.
    type: int
    default: 600
  grace_seconds:
    description: Seconds that a server waits for its clients after a reboot.
    type: int
    default: 20
  when_unsupported:
    description: What to do when the kernel has no NFS.
    type: str
    choices: [fail, skip]
    default: fail
  when_away:
    description: What V(probe) does when a share does not answer.
    type: str
    choices: [fail, warn]
    default: warn
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows the files before and after.
    support: full
"""

EXAMPLES = r"""
- name: Mount the team's share
  tpu.fleet.nfs_shares:
    slice: pair
    worker: 1
    shares:
      - name: team
        path: /mnt/team
        slice: solo
    hosts:
      - slice: solo
        worker: 0
        address: 10.0.0.2
      - slice: pair
        worker: 1
        address: 10.0.0.4
"""

RETURN = r"""
missing_packages:
  description: Packages that are needed first. If there are any, nothing was done.
  type: list
  elements: str
  returned: always
steps:
  description: What was done, in order.
  type: list
  elements: str
  returned: always
hash:
  description: Hash of what this host exports and mounts.
  type: str
  returned: always
notes:
  description: Remarks about this host's shares.
  type: dict
  returned: always
"""

import hashlib
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.state import as_json, read_text
from ..module_utils._host.work import Failed
from ..module_utils._roles.nfs_share.act import Work
from ..module_utils._roles.nfs_share.look import fstab_targets, lacking, missing_packages, probe
from ..module_utils._roles.nfs_share.plan import Me, Plan, Times, plan, problems_of


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["apply", "probe"], "default": "apply"},
            "shares": {"type": "list", "elements": "dict", "required": True},
            "hosts": {"type": "list", "elements": "dict", "default": []},
            "slice": {"type": "str", "required": True},
            "worker": {"type": "int", "default": 0},
            "zone": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 30},
            "mount_timeout": {"type": "int", "default": 15},
            "idle_timeout": {"type": "int", "default": 600},
            "grace_seconds": {"type": "int", "default": 20},
            "when_unsupported": {"type": "str", "choices": ["fail", "skip"], "default": "fail"},
            "when_away": {"type": "str", "choices": ["fail", "warn"], "default": "warn"},
        },
        supports_check_mode=True,
    )
    p = module.params
    for share in p["shares"]:
        for key, message, remedy in problems_of(share):
            shown = share.get(key)
            module.fail_json(msg=f"share {share.get('name')}: {key} = {shown} {message}. {remedy}.")
    times = Times(p["timeout"], p["mount_timeout"], p["idle_timeout"], p["grace_seconds"])
    me = Me(p["slice"], p["worker"], p["zone"])
    wanted = plan(p["shares"], p["hosts"], me, fstab_targets(read_text("/etc/fstab") or ""))
    notes: dict[str, Any] = {}
    lacks = lacking(module.run_command, wanted)
    if lacks:
        text = f"The kernel of this host cannot {' nor '.join(lacks)} NFS shares"
        if p["when_unsupported"] == "fail":
            module.fail_json(
                msg=f"{text}. Leave its slice out of the shares, set "
                "nfs_share_when_unsupported: skip, or in the local cloud give the slice the "
                "metadata local-cloud-kernel: own."
            )
        wanted = Plan()
        notes["skipped"] = text
    work = Work(module.run_command, module.check_mode, wanted, times)
    texts = {**work.wanted, "folders": str(wanted.exports)}
    result: dict[str, Any] = {
        "changed": False,
        "missing_packages": [],
        "steps": [],
        "hash": hashlib.sha256(as_json(texts).encode()).hexdigest(),
        "notes": notes,
    }
    if p["phase"] == "probe":
        away = [] if module.check_mode else probe(module.run_command, wanted, times)
        away += [f"{path} stays as it is: {why}" for path, why in wanted.kept.items()]
        if away and p["when_away"] == "fail":
            module.fail_json(msg=". ".join(away), **result)
        for text in away:
            module.warn(text)
        module.exit_json(**result)
    if wanted.exports:
        notes["exports"] = [export.folder for export in wanted.exports]
    if wanted.mounts:
        notes["mounts"] = [mount.path for mount in wanted.mounts]
    result["missing_packages"] = missing_packages(wanted)
    if result["missing_packages"] and not module.check_mode:
        module.exit_json(**result)
    try:
        work.run()
    except (Failed, OSError) as error:
        module.fail_json(msg=f"{error}.", **{**result, "steps": work.steps})
    result.update(changed=bool(work.steps), steps=work.steps, diff=work.diff)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
