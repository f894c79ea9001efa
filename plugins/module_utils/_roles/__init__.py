# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package for each role: its rules, and how it looks, plans and acts.

May import: _core, _host, _schema.
"""
