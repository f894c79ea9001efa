# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Cloud TPU API: nodes, queued resources, their workers, and plans for one of them.

May import: _core, _schema, _wire.
"""
