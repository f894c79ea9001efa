# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a module waits for what it asked for."""

from __future__ import annotations

DOCUMENTATION = r"""
options:
  wait:
    description:
      - Whether to wait until the wanted state is reached.
    type: bool
    default: true
  wait_timeout:
    description:
      - Maximum seconds to wait, over all steps.
    type: int
    default: 1800
  wait_sleep:
    description:
      - Seconds to wait before the second poll; later pauses grow up to 20 seconds, and
        each is shortened a little at random.
    type: float
    default: 2.0
"""
