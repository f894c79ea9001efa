#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bucket_location
short_description: Refuse buckets in another region than their slices
version_added: 0.1.0
description:
  - Asks Cloud Storage once where each bucket is that slices read or write, and fails for each that
    is in another region than a zone in which such a slice may be, because every byte between them
    costs. The price is named. Run it on the controller, before anything changes.
  - Without O(places), they are those of the fleet file, from its variables. They are addresses in
    C(checkpoint_dir), C(command), C(checkpoint_command) and C(env) of runs, mounted buckets, logs
    of boards, and the bucket of C(fleet_self_setup).
  - Free are a bucket in the region of the slice, and a dual-region bucket of which it is a part. A
    multi-region bucket of the same continent is a warning, because reads cost and writes do not.
  - A bucket that is not there, or of which the account may not know, is a warning.
extends_documentation_fragment:
  - tpu.fleet.attributes.info
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  places:
    description: The places in buckets.
    type: list
    elements: dict
    required: true
    suboptions:
      field: {description: What names the place., type: str, required: true}
      address:
        description: The address, as C(gs://lab-{region}/lm). V({region}) and V({zone}) become those
          of each slice.
        type: str
        required: true
      slices:
        description: Slices that use it; all without a name.
        type: list
        elements: str
        default: []
      cross_region:
        description: Whether another region is refused, or its price is accepted.
        type: str
        choices: [refuse, allow]
        default: refuse
  made:
    description: The regions of the buckets that the fleet file makes, by their names. One of them
      that is not there yet is taken to be in its region.
    type: dict
    default: {}
  slices:
    description: The slices and where they may be.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the slice., type: str, required: true}
      zones: {description: Its zones., type: list, elements: str, required: true}
"""

EXAMPLES = r"""
- name: Check that the buckets are near
  tpu.fleet.bucket_location:
    places:
      - field: checkpoints
        address: gs://lab-{region}/lm
    slices:
      - name: solo
        zones: [us-central2-b]
"""

RETURN = r"""
locations:
  description: Where each bucket is; empty for one that could not be read.
  returned: success
  type: dict
allowed:
  description: The places in another region whose price was accepted, each with it.
  returned: success
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run
from ..module_utils._core.errors import Refused, TpuError
from ..module_utils._fleet_file.bucket_places import ALLOW, BucketPlace, Places
from ..module_utils._google.apis import GoogleApis
from ..module_utils._tpu.client import Client


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Look at each bucket once, and judge."""
    places = _places(module.params)
    found, unknown = look(places, GoogleApis(client), module.params["made"])
    verdict = places.judged(found)
    if verdict.problems:
        count = len(verdict.problems)
        lines = "\n".join(f"  {problem}" for problem in verdict.problems)
        raise Refused(
            f"{count} {'place is' if count == 1 else 'places are'} in another region than a slice. "
            f"Nothing was changed.\n{lines}",
            remedy="\nCorrect what the lines name and run it again.",
        )
    for warning in (*unknown, *verdict.warnings):
        module.warn(warning)
    locations = {name: str((bucket or {}).get("location", "")) for name, bucket in found.items()}
    return {"changed": False, "locations": locations, "allowed": verdict.allowed}


def _places(params: dict[str, Any]) -> Places:
    places = [
        BucketPlace(
            one["field"], one["address"], tuple(one["slices"]), one["cross_region"] == ALLOW
        )
        for one in params["places"]
    ]
    return Places(places, {one["name"]: one["zones"] for one in params["slices"]})


def look(
    places: Places, apis: GoogleApis, made: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any] | None], list[str]]:
    """Return each bucket as Cloud Storage shows it or will, and what could not be seen."""
    found: dict[str, dict[str, Any] | None] = {}
    unknown = []
    for name in places.buckets():
        try:
            found[name] = apis.find("storage", f"b/{name}")
            if found[name] is None and made.get(name):
                found[name] = {"location": made[name]}
            elif found[name] is None:
                unknown.append(places.missing(name))
        except TpuError as error:
            # To use it the machines need other rights than to ask where it is needs here.
            found[name] = None
            unknown.append(places.hidden(name, error.message))
    return found, unknown


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
