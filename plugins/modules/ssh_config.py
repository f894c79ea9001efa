#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_config
short_description: Write the ssh configuration of the fleet
version_added: 0.2.0
description:
  - Writes C(ssh_config) into C(fleet_state_dir), with a block for each usable worker, and the list
    of workers that the commands of C(tpu-fleet) read.
  - It is a part of the playbooks of this collection, and may change with them.
  - Runs in Ansible itself, on the controller.
author:
  - The tpu.fleet authors (@tpu-fleet)
options: {}
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows the text before and after.
    support: full
"""

EXAMPLES = r"""
- name: Write the ssh configuration of the fleet
  tpu.fleet.ssh_config:
"""

RETURN = r"""
dest:
  description: The file.
  type: str
  returned: always
"""
