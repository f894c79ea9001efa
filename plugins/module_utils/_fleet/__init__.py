# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All slices together: the declared ones, the existing ones, the plan, and how it is applied.

May import: _compute, _core, _fleet_file, _google, _host, _schema, _tpu.
"""
