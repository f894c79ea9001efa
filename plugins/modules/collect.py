# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: collect
short_description: Fetch a run's files from a worker
version_added: 0.1.0
description:
  - Brings plain files with rsync, where both sides have it, else one by one. What is there already
    is not sent again. Nothing is written outside of O(folder).
  - It is a part of the playbooks of this collection, and may change with them.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  run:
    description:
      - Name of the run. The first worker of the play fails when none of them has such a run, or, in
        the playbook finish, a result that it declares.
    type: str
    required: true
  left:
    description: What M(tpu.fleet.run_info) answers about V(left).
    type: dict
    required: true
  folder:
    description: The worker's folder on the controller.
    type: path
    required: true
  ssh_config:
    description: The configuration in which rsync finds the worker's address.
    type: path
    required: true
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: partial
    details: Brings nothing, and does not compare.
  diff_mode:
    description: Shows what changes.
    support: none
"""

EXAMPLES = r"""
- name: Bring what is new
  tpu.fleet.collect:
    run: digits
    left: "{{ fleet_collect_found.answer }}"
    folder: ~/results/digits/solo
    ssh_config: "{{ fleet_state_dir }}/ssh_config"
"""

RETURN = r"""
run:
  description: Name of the run.
  type: str
  returned: always
folder:
  description: The worker's folder on the controller.
  type: str
  returned: the worker has something of the run
files:
  description: Number of files that were brought, as they were new or had changed.
  type: int
  returned: as O(folder)
missing:
  description: The declared results that the worker does not have.
  type: list
  elements: str
  returned: as O(folder)
"""
