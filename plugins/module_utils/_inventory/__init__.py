# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers in the inventory, and how ssh reaches and verifies them.

May import: _compute, _core, _tpu.
"""
