# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What is the same for all modules that only the roles of this collection call."""

    DOCUMENTATION = r"""
version_added: 0.1.0
author:
  - The tpu.fleet authors (@tpu-fleet)
notes:
  - This module is internal. The roles of this collection call it, and its options change without
    notice.
options: {}
"""

    # For a module with the name of its role.
    ROLE = r"""
options:
  settings:
    description:
      - The variables of the role, by their names without the role's.
      - The filter P(tpu.fleet.role_settings#filter) makes them.
    type: dict
    required: true
  secrets:
    description: The values with C(no_log) by their path in O(settings).
    type: dict
    default: {}
"""
