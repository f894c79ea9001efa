#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bucket_location
short_description: Warn of buckets in another region than their slices
version_added: 0.1.0
description:
  - Asks Cloud Storage where buckets are, and warns of each that is not in the region of a slice
    which mounts it. Every byte that is read from another region costs. Run it on the controller.
  - What is not given is taken from the variables of the fleet file, and what machines have from the
    inventory.
  - A bucket that is not there, or of which the account may not know, is a warning as well; it
    never fails for that.
extends_documentation_fragment:
  - tpu.fleet.attributes.info
  - tpu.fleet.gcp
  - tpu.fleet.google_apis
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  buckets:
    description: The buckets, as in C(fleet_buckets).
    type: list
    elements: dict
    required: true
    suboptions:
      bucket: {description: Name of the bucket., type: str, required: true}
      slices: {description: Slices that mount it., type: list, elements: str, default: []}
  slices:
    description: The slices and where they are.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the slice., type: str, required: true}
      zone: {description: Its zone., type: str, required: true}
"""

EXAMPLES = r"""
- name: See whether the buckets are near
  tpu.fleet.bucket_location:
    buckets: "{{ fleet_buckets }}"
    slices:
      - name: solo
        zone: us-central2-b
"""

RETURN = r"""
locations:
  description: Where each bucket is; empty for one that could not be read.
  returned: success
  type: dict
far:
  description: What was warned of.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run
from ..module_utils._core.errors import TpuError
from ..module_utils._google.apis import GoogleApis
from ..module_utils._roles.bucket_mount.units import far_buckets
from ..module_utils._tpu.client import Client


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """Look at each bucket once."""
    apis = GoogleApis(client)
    declared, slices = module.params["buckets"], module.params["slices"]
    found: dict[str, dict[str, Any] | None] = {}
    for name in sorted({entry["bucket"] for entry in declared}):
        try:
            found[name] = apis.find("storage", f"b/{name}")
            if found[name] is None:
                module.warn(f"Bucket {name}: there is no such bucket.")
        except TpuError as error:
            # To mount it the machines need other rights than to ask where it is needs here.
            found[name] = None
            module.warn(f"Bucket {name}: its region is unknown. {error.message}")
    far = far_buckets(found, declared, slices)
    for warning in far:
        module.warn(warning)
    locations = {name: (bucket or {}).get("location", "") for name, bucket in found.items()}
    return {"changed": False, "locations": locations, "far": far}


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION), execute)


if __name__ == "__main__":
    main()
