#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_share
short_description: Export and mount NFS shares between workers
description:
  - Does on the machine what the role P(tpu.fleet.nfs_share#role) declares.
options:
  phase:
    description: V(apply) exports and mounts, V(probe) asks whether the mounted shares answer.
    type: str
    choices: [apply, probe]
    default: apply
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Export and mount NFS shares between workers
  tpu.fleet.nfs_share: "{{ 'nfs_share' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

import hashlib
from typing import Any

from ..module_utils._ansible.role_module import role_module
from ..module_utils._host.state import as_json, read_text
from ..module_utils._host.work import Failed
from ..module_utils._roles.nfs_share.act import Work
from ..module_utils._roles.nfs_share.look import fstab_targets, lacking, missing_packages, probe
from ..module_utils._roles.nfs_share.plan import Me, Plan, Times, plan


def main() -> None:
    """Run the module."""
    module, settings = role_module(
        phase={"type": "str", "choices": ["apply", "probe"], "default": "apply"}
    )
    times = Times(
        settings["timeout"],
        settings["mount_timeout"],
        settings["idle_timeout"] or 0,
        settings["grace"],
    )
    me = Me(settings["slice"], settings["worker_index"], settings["zone"])
    wanted = plan(
        settings["shares"], settings["hosts"], me, fstab_targets(read_text("/etc/fstab") or "")
    )
    notes: dict[str, Any] = {}
    lacks = lacking(module.run_command, wanted)
    if lacks:
        text = f"The kernel of this host cannot {' nor '.join(lacks)} NFS shares"
        if settings["when_unsupported"] == "fail":
            module.fail_json(
                msg=f"{text}. Leave its slice out of the shares, set "
                "fleet_share_when_unsupported: skip, or in the local cloud give the slice the "
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
    if module.params["phase"] == "probe":
        away = [] if module.check_mode else probe(module.run_command, wanted, times)
        away += [f"{path} stays as it is: {why}" for path, why in wanted.kept.items()]
        if away and settings["on_unreachable"] == "fail":
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
