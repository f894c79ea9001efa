# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..module_utils._ansible.fragments import Compute


class ModuleDocFragment(Compute):
    """What a slice on Compute Engine is made of, and how it is asked for."""
