#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_doctor
short_description: Check a TPU machine and suggest fixes
version_added: 0.1.0
description:
  - Looks at everything that keeps a training program from running, in one go, and says of each
    thing whether it is well and what to do if it is not. Docs are in C(docs/doctor.md).
  - Nothing is changed unless O(fix) is given, and no chip in use is touched.
  - It ends within O(time_limit), also when a file server hangs. No role has to have been applied
    before.
  - What is not given is taken from the inventory, and from C(doctor_now), C(doctor_fix),
    C(doctor_time_limit) and C(doctor_pci_devices).
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the machine in the inventory, for the remedies. By default its own.
    type: str
  slice:
    description: Name of its slice, for venvs that are declared for some slices only.
    type: str
    default: ''
  fix:
    description:
      - Whether to make the safe repairs. RV(fixed) says what was done.
      - No user's process is ended or disturbed. Installing takes longer than O(time_limit).
    type: bool
    default: false
  time_limit:
    description: Seconds after which what has not answered is given up.
    type: float
    default: 20
  now:
    description:
      - The time, in seconds since 1970, to compare the clock with. By default the controller's,
        so that a slow connection is not taken for a wrong clock.
    type: float
  accelerator_type:
    description: The type of the slice, which says how many chips the machine should have.
    type: str
    default: ''
  venvs:
    description:
      - The venvs that are declared, each with C(name) and perhaps C(path) and C(slices). Those
        that were installed before are looked at in any case.
    type: list
    elements: dict
    default: []
  hosts:
    description:
      - Internal addresses of the workers of the slice, in their order. Whether their ports can be
        reached is tried from here; with a run, the ports that it needs.
    type: list
    elements: str
    default: []
  worker:
    description: Number of this worker in the slice.
    type: int
    default: 0
  lock_file:
    description: The lock file of libtpu.
    type: path
    default: /tmp/libtpu_lockfile
  pci_devices:
    description: Folder of the devices on the PCI bus.
    type: path
    default: /sys/bus/pci/devices
attributes:
  check_mode:
    description: Changes nothing; says what O(fix) would do.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
seealso:
  - module: tpu.fleet.fleet_doctor
"""

EXAMPLES = r"""
- name: Look at the machine
  tpu.fleet.host_doctor:
    accelerator_type: "{{ tpu_vm_accelerator_type | default('') }}"
  register: doctor

- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ doctor.findings | rejectattr('status', 'in', ['ok', 'skipped']) | list }}"
"""

RETURN = r"""
findings:
  description: One row of each thing that was looked at.
  returned: always
  type: list
  elements: dict
  contains:
    check: {description: What was looked at, type: str, returned: always, sample: disk}
    subject: {description: The one of several, type: str, returned: always, sample: "/"}
    status: {description: "One of V(ok), V(skipped), V(warn), V(fail)", type: str, returned: always}
    says: {description: What was found, type: str, returned: always}
    remedy: {description: What to do about it, type: str, returned: always}
    case: {description: Name of what was found, type: str, returned: always, sample: full}
    fix: {description: What O(fix) does about it, type: str, returned: always}
status:
  description: The worst of them.
  returned: always
  type: str
fixed:
  description: What O(fix) did, C(did), or why it could not, C(failed).
  returned: always
  type: list
  elements: dict
clock:
  description: What the clock showed when the module began.
  returned: always
  type: dict
compare:
  description: What has to be equal on all workers of a slice.
  returned: always
  type: dict
seconds:
  description: How long it took.
  returned: always
  type: float
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._doctor.check import worst
from ..module_utils._doctor.gather import Place
from ..module_utils._doctor.host import look, summary
from ..module_utils._doctor.mend import mend
from ..module_utils._schema.accelerators import parse


def chips_of(accelerator_type: str) -> int:
    """Return how many chips a machine of a type has; 0 when it is not known."""
    known = parse(accelerator_type)
    return known.chips // known.workers if known else 0


def main() -> None:
    """Run the module."""
    started, began = time.time(), time.monotonic()
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str"},
            "slice": {"type": "str", "default": ""},
            "fix": {"type": "bool", "default": False},
            "time_limit": {"type": "float", "default": 20},
            "now": {"type": "float"},
            "accelerator_type": {"type": "str", "default": ""},
            "venvs": {"type": "list", "elements": "dict", "default": []},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "worker": {"type": "int", "default": 0},
            "lock_file": {"type": "path", "default": "/tmp/libtpu_lockfile"},  # noqa: S108
            "pci_devices": {"type": "path", "default": "/sys/bus/pci/devices"},
        },
        supports_check_mode=True,
    )
    params = module.params
    here = [v for v in params["venvs"] if params["slice"] in (v.get("slices") or [params["slice"]])]
    place = Place(
        name=params["name"] or "",
        pci=params["pci_devices"],
        lock_file=params["lock_file"],
        venvs=tuple(here),
        hosts=tuple(params["hosts"]),
        worker=params["worker"],
    )
    expected = {"chips": chips_of(params["accelerator_type"])}
    ahead = None if params["now"] is None else started - params["now"]
    facts, findings = look(place, expected, ahead, params["time_limit"])
    fixed: list[dict[str, str]] = []
    # Twice: what was repaired may have been all that kept the machine from being called ready.
    for _round in range(2 if params["fix"] else 0):
        tried = {(step["check"], step["subject"]) for step in fixed}
        steps = mend(place, findings, tried, module.check_mode)
        fixed += steps
        if module.check_mode or not any(step["did"] for step in steps):
            break
        facts, findings = look(place, expected, ahead, params["time_limit"])
    module.exit_json(
        changed=any(step["did"] for step in fixed),
        findings=[finding.to_dict() for finding in findings],
        status=worst(finding.status for finding in findings),
        fixed=fixed,
        clock={
            "started": started,
            "synchronized": facts["clock"]["synchronized"],
            "container": facts.get("host", {}).get("container", ""),
        },
        compare=summary(facts),
        seconds=round(time.monotonic() - began, 1),
    )


if __name__ == "__main__":
    main()
