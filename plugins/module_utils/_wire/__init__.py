# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a request gets to a server: credentials, HTTP, which answers are asked for again.

May import: _core.
"""
