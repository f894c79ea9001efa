# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker's side of `tpu-fleet sync`: install a version of a tree, start the next attempt.

The controller packs what this needs into one file and sends it. Standard library only.

May import: _apply_agent, _host, _roles.
"""
