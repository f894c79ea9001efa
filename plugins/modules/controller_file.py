#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: controller_file
short_description: Write a file of the controller
version_added: 0.1.0
description:
  - Writes a text into a file of this computer, as a whole or not at all.
  - Runs in Ansible itself. M(ansible.builtin.template) starts five programs to find that nothing
    has changed.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  dest:
    description: The file. Its folder is made if it is missing, for those who may read the file.
    type: path
    required: true
  content:
    description: Content of the file.
    type: str
    required: true
  mode:
    description: Its mode in octal digits.
    type: str
    default: "0600"
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows the text before and after.
    support: full
"""

EXAMPLES = r"""
- name: Write the targets of Prometheus
  tpu.fleet.controller_file:
    dest: /etc/prometheus/tpu.json
    content: "{{ targets | to_json }}"
"""

RETURN = r"""
dest:
  description: The file.
  type: str
  returned: always
"""
