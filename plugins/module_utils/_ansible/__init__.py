# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared code of modules that uses Ansible: options, credentials, failures, settings of roles.

May import: _core, _google, _tpu, _wire.
"""
