# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code that several modules on a worker share: state, users, services, runs. Standard library only.

May import: _schema.
"""
