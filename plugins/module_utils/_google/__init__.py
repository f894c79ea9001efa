# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Google's other APIs around the TPUs: services, service accounts, storage.

May import: _core, _schema, _tpu, _wire.
"""
