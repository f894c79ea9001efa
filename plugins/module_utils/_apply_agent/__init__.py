# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The apply agent: the program with which a host applies its roles itself. Private to tpu.fleet.

The controller packs this folder into one file and sends it. It needs only Python 3.8 or later;
Ansible is used only to apply roles.

May import: _roles.
"""
