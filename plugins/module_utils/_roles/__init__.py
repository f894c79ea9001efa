# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder for each role, named as the role: its rules, what it decides, looks at and does.

May import: _core, _host, _schema.
"""
