# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ..module_utils._ansible.fragments import GoogleApis


class ModuleDocFragment(GoogleApis):
    """Where Google's other APIs are, besides that of the TPUs."""
