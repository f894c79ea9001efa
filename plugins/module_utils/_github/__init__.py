# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GitHub: the SSH keys that an account has, and the wanted ones.

May import: _wire.
"""
