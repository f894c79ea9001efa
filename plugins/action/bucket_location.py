# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module bucket_location for the buckets and slices that the variables of the play know."""

from __future__ import annotations

from typing import Any

from ..plugin_utils._fleet.declared import Declared


class ActionModule(Declared):
    """The module, with what was not given."""

    def declared(self) -> dict[str, Any]:
        """Return the buckets and where the slices are."""
        said = self.said("project", "api_endpoint", buckets="fleet_buckets")
        # To look at all workers takes a while, and mostly there is no bucket.
        known = self.workers().values() if said.get("buckets") else ()
        zones = {of["tpu_vm_name"]: of["tpu_vm_zone"] for of in known if "tpu_vm_zone" in of}
        of_buckets = ("bucket", "slices")
        buckets = [{n: one[n] for n in of_buckets if n in one} for one in said.get("buckets", [])]
        slices = [{"name": name, "zone": zone} for name, zone in zones.items()]
        return {**said, "buckets": buckets, "slices": slices}

    def act(self) -> dict[str, Any]:
        """Run it where there is a bucket to ask for."""
        return super().act() if self._task.args["buckets"] else {"skipped": True}
