# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The zone."""

from __future__ import annotations

DOCUMENTATION = r"""
options:
  zone:
    description:
      - The zone.
      - If it is not given, the environment variable E(CLOUDSDK_COMPUTE_ZONE)is used.
    type: str
    required: true
"""
