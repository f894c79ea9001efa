# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module bucket_location for the places that the variables of the play declare."""

from __future__ import annotations

from typing import Any

from ..module_utils._fleet_file.around import buckets
from ..module_utils._fleet_file.bucket_places import ALLOW, PLACED, Places
from ..plugin_utils._fleet.check import readable
from ..plugin_utils._fleet.declared import Declared


class ActionModule(Declared):
    """The module, with what was not given."""

    def declared(self) -> dict[str, Any]:
        """Return the places and where the slices may be."""
        wanted = (*PLACED, "fleet_checkpoint_buckets")
        given = {name: self.vars[name] for name in wanted if name in self.vars}
        data = readable(given, self._templar.template)
        places = Places.declared(data)
        return {
            **self.said("project", "api_endpoint"),
            "places": [
                {
                    "field": one.field,
                    "address": one.address,
                    "slices": list(one.slices),
                    "cross_region": ALLOW if one.allows else "refuse",
                }
                for one in places.places
            ],
            "made": {one["name"]: one.get("location", "") for _module, one in buckets(data)},
            "slices": [
                {"name": name, "zones": list(zones)} for name, zones in places.zones.items()
            ],
        }

    def act(self) -> dict[str, Any]:
        """Run it where there is a bucket to ask for."""
        return super().act() if self._task.args["places"] else {"skipped": True}
