# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drill_plan
short_description: Plan drills of a run
version_added: 0.1.0
description:
  - Says what the variables C(fleet_run) and C(fleet_drill*) of the play ask for, or what is wrong
    with them. M(tpu.fleet.drill) does it.
  - It is a part of the playbook C(drill) of this collection, and may change with it.
author:
  - The tpu.fleet authors (@tpu-fleet)
extends_documentation_fragment: [tpu.fleet.attributes.info]
options: {}
"""

EXAMPLES = r"""
- name: Find out what is asked for
  tpu.fleet.drill_plan:
  register: fleet_drill_plan
"""

RETURN = r"""
host:
  description: The worker on which it is done. Beside it is what else is known of it.
  type: str
  returned: success
steps:
  description: Each drill, with C(does) and, when it cannot be done there, C(skip).
  type: list
  elements: dict
  returned: always
lines:
  description: The steps in words.
  type: list
  elements: str
  returned: always
problems:
  description: What is wrong; empty when the module succeeds.
  type: list
  elements: str
  returned: always
"""
