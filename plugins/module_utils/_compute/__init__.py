# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute Engine: machines with TPUs and groups of them, disks, firewall rules, project metadata.

May import: _core, _google, _schema, _tpu, _wire.
"""
