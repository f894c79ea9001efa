# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module fleet_info for the fleet that the variables of the play declare."""

from __future__ import annotations

from typing import Any

from ..module_utils._fleet.usage import DECLARED
from ..module_utils._fleet_file.bucket_places import PLACED, Places
from ..plugin_utils._fleet.check import readable
from ..plugin_utils._fleet.declared import Declared


class ActionModule(Declared):
    """The module, with what was not given."""

    def declared(self) -> dict[str, Any]:
        """Return what the variables say."""
        given = {name: self.vars[name] for name in PLACED if name in self.vars}
        places = Places.declared(readable(given, self._templar.template))
        return {**self.said(**DECLARED), "buckets": places.buckets()}
