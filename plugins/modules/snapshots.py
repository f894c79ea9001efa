# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: snapshots
short_description: Pack local folders for the machines
version_added: 0.1.0
description:
  - Packs the code of C(fleet_code) and the dotfiles of C(fleet_shells) that are in
    folders of the controller, as M(tpu.fleet.code_snapshot) does.
  - It is a part of the playbooks of this collection, and may change with them.
author:
  - The tpu.fleet authors (@tpu-fleet)
options: {}
attributes:
  check_mode:
    description: Packs dotfiles, which say what would change; says whether code would be packed.
    support: partial
    details: A packed folder is a file of the controller.
  diff_mode:
    description: Shows which files changed since the last time.
    support: full
"""

EXAMPLES = r"""
- name: Pack local code and dotfiles
  tpu.fleet.snapshots:
  delegate_to: localhost
  run_once: true
  register: fleet_packed
"""

RETURN = r"""
dotfiles:
  description: The packed dotfiles, each with C(user), C(digest) and C(archive).
  type: list
  elements: dict
  returned: always
"""
