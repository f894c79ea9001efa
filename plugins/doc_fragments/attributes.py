# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What the modules can do besides their task."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    support: full
    description: Can run in check mode and report what would change without changing it.
  diff_mode:
    support: full
    description: Returns the state before and after, when run with C(--diff).
"""

    INFO = r"""
attributes:
  check_mode:
    support: full
    description: Can run in check mode; it never changes anything.
  diff_mode:
    support: none
    description: There is nothing to show, it never changes anything.
"""
