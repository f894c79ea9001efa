# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..module_utils._ansible.fragments import Node


class ModuleDocFragment(Node):
    """What a TPU node is made of."""
