# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue of submitted runs in a bucket: its objects, order, limits, claims and operations.

A bucket is the whole queue; no server decides. Each run has one object with its state, which is
the only truth, and each step is a write over the very generation that was read before. The machines
and the controller use the same code, which needs only the standard library.

May import: _schema.
"""
