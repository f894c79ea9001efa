# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a resource is."""

from __future__ import annotations

DOCUMENTATION = r"""
options:
  owner:
    description:
      - Whose it is. What is made gets V(managed) if nothing is said.
      - If it is given, what belongs to other owners is not touched.
    type: str
  adopt:
    description: Whether to change or delete what was not made by this collection.
    type: bool
    default: false
"""
