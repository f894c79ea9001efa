#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_check
short_description: Check a whole fleet file before anything is changed
version_added: 0.1.0
description:
  - Checks the variables of the play that begin with C(fleet_) or with the name of a role of this
    collection, each for itself and that they fit together.
  - What the fleet itself may have is in C(docs/fleet-file.md); what a role may have, in its
    argument specification, C(ansible-doc -t role tpu.fleet.ROLE).
  - Adds the chips of the slices up against the grant, before anything is asked of Google.
  - Finds variables whose name is nearly, but not quite, one that is known.
  - Reports everything at once, each problem with field, value, what is wrong and what to do. Values
    that are secret are not shown.
  - Changes nothing, and runs in Ansible itself, on the controller.
author:
  - The tpu.fleet authors (@tpu-fleet)
extends_documentation_fragment: [tpu.fleet.attributes.info]
options:
  variables:
    description:
      - What to check, by the name of the variable.
      - By default the variables of the play. One that can be read on a worker only, for it refers
        to C(tpu_vm_) variables, is left to the role.
    type: dict
  known:
    description:
      - The RV(digest) of what was checked before and was right. What is still the same is not
        checked again, and no warning is repeated.
    type: str
"""

EXAMPLES = r"""
- name: Check the fleet file
  tpu.fleet.fleet_check:

- name: Check slices against a grant
  tpu.fleet.fleet_check:
    variables:
      fleet_allocations:
        - zone: us-central2-b
          generation: v4
          tier: on_demand
          chips: 32
          ends: 2026-12-31
        - zone: europe-west4-a
          accelerator_type: v3-8
          tier: on_demand
          count: 5
      fleet_slices:
        - name: big
          accelerator_type: v4-64
          zone: us-central2-b
"""

RETURN = r"""
at:
  description: When it was checked, in seconds since 1970.
  returned: success
  type: float
digest:
  description: What stands for the content that was checked.
  returned: success
  type: str
"""
