#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: watch_settings
short_description: Write the watcher's settings from the fleet file
version_added: 0.1.0
description:
  - Writes what C(tpu-fleet watch) needs of the variables of the play into a file that only its
    owner can read.
  - It is a part of the playbook C(watch) of this collection, and may change with it.
  - Runs in Ansible itself, on the controller.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  dest:
    description: The file; its folder must be there.
    type: path
    required: true
  ssh_keys:
    description: Keys that every slice admits, as M(tpu.fleet.fleet) takes them.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: none
  diff_mode:
    description: Shows what changes.
    support: none
"""

EXAMPLES = r"""
- name: Tell the watcher what is wanted
  tpu.fleet.watch_settings:
    dest: "{{ fleet_watch_file }}"
    ssh_keys: ["{{ fleet_ssh_user }}:{{ fleet_ssh_public_key }}"]
"""

RETURN = r"""
"""
