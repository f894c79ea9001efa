# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the inventory without a playbook, and keep the list of its workers.

May import: _fleet, _roles, _ssh.
"""
