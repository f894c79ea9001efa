# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet file: what it says of grant, slices and all around them, checked as a whole.

May import: _apply_agent, _compute, _core, _google, _roles, _schema, _tpu.
"""
