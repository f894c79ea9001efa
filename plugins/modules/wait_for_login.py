#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_login
short_description: Wait until a machine lets Ansible log in
version_added: 0.1.0
description:
  - Logs in again and again until it works.
  - Unlike M(ansible.builtin.wait_for_connection) it runs no module on the machine. So it is no
    matter here if Python is too old there or the disk is full; what needs them says so at once.
  - Runs in Ansible itself. In check mode it does nothing, for the machine may not be there.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  timeout:
    description: Seconds to try it for; it is tried once at least.
    type: int
    default: 300
  denied_for:
    description:
      - Seconds for which the machine may say that it does not admit the key. One that was just made
        has no accounts yet in its first seconds; after that, a login that is denied stays so.
    type: int
    default: 20
  sleep:
    description: Seconds between two tries.
    type: float
    default: 1.0
attributes:
  check_mode:
    description: Is skipped.
    support: none
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Wait until the machine is up
  tpu.fleet.wait_for_login:
    timeout: 600
"""

RETURN = r"""
waited:
  description: Seconds waited.
  type: float
  returned: when not skipped
"""
