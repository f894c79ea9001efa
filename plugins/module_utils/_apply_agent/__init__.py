# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host does to be as it is declared, by itself. Private to tpu.fleet.

The controller packs this folder into one file and sends it. It needs Python 3.8 or later and
nothing else; Ansible comes into play only where something is to be applied.

May import: _roles.
"""
