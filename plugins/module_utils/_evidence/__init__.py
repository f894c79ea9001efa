# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a worker shows of a run for `tpu-fleet why`: its declaration, which both sides share.

May import: _core, _schema.
"""
