# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules on a worker share: its state, users, services, runs. The standard library only.

May import: nothing.
"""
