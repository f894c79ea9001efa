# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors and their remedies, marks of owners, waiting, and parsing of workers' answers.

May import: _schema.
"""
