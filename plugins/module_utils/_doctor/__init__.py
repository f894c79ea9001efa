# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The doctor: its checks on the controller and on workers, its report, and its repairs.

May import: _apply_agent, _compute, _core, _fleet, _fleet_file, _google, _host, _schema, _tpu,
_wire.
"""
