# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply roles on machines: the bundle, the wish of each machine, the talk with it, the report.

May import: _core, _roles, _ssh.
"""
