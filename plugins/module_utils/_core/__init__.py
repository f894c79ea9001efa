# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors and what mends them, marks of owners, waiting, and how a worker's answer is read.

May import: nothing.
"""
