#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: push_record
short_description: Let machines remember what was pushed to them
version_added: 0.1.0
description:
  - Before roles are pushed to machines, asks each of them whether there is anything to do, over one
    connection and with one command. It is, when they are given other values than the last time,
    when this did not go well, or when the machine was started anew or looks different since.
  - Afterwards, lets the machines note that the roles were applied, and what they look like.
  - Runs once for all machines of the play. Machines that are away are not left out - whatever comes
    next says what is wrong with them.
  - Does nothing in check mode and when tags are given.
author:
  - The tpu.fleet authors (@tpu-fleet)
requirements:
  - asyncssh
options:
  state:
    description: V(begins) asks, V(done) notes.
    type: str
    choices: [begins, done]
    required: true
  plays:
    description: Names of plays of this collection whose roles are meant.
    type: list
    elements: str
    required: true
  hosts:
    description: Only these machines of the play, for instance RV(asked).
    type: list
    elements: str
  roles:
    description:
      - Of the roles, those that were applied on each machine, for instance RV(roles).
      - For a machine that is not in it, all of them.
    type: dict
  forced:
    description: Whether there is everything to do on all machines, also where nothing is different.
    type: bool
    default: false
attributes:
  check_mode:
    description: It does nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Ask what there is to do
  tpu.fleet.push_record:
    state: begins
    plays: [Make the machines ready for work]
  run_once: true
  register: pushing

- name: Go on with the others
  ansible.builtin.meta: end_host
  when: inventory_hostname in pushing.idle
"""

RETURN = r"""
idle:
  description: Machines with nothing to do. The workers of a slice are all here or none.
  type: list
  elements: str
  returned: always
roles:
  description:
    - The roles that have something to do, for each machine that was asked.
    - The workers of a slice have the same.
  type: dict
  returned: always
reasons:
  description: Why there is something to do, a list for each machine on which there is.
  type: dict
  returned: always
asked:
  description: Machines that answered.
  type: list
  elements: str
  returned: always
"""
