#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: accelerator_type_info
short_description: List the accelerator types of a zone
version_added: 0.1.0
description:
  - Returns the accelerator types that a zone offers. Run it on the controller.
  - An offered type may have no free capacity, and the project may have no quota for it.
extends_documentation_fragment:
  - tpu.fleet.attributes.info
  - tpu.fleet.gcp
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  zone:
    description:
      - Zone to list.
      - If it is not given, the environment variable E(CLOUDSDK_COMPUTE_ZONE) is used.
    type: str
    required: true
  name:
    description: Return only the type of this name. A missing type is no error.
    type: str
seealso:
  - module: tpu.fleet.runtime_version_info
"""

EXAMPLES = r"""
- name: See what the zone offers
  tpu.fleet.accelerator_type_info:
    zone: us-central2-b
  register: offered

- name: Say it
  ansible.builtin.debug:
    msg: "{{ offered.accelerator_types | map(attribute='name') }}"
"""

RETURN = r"""
accelerator_types:
  description:
    - The types. What this collection does not know of a type is null.
  returned: success
  type: list
  elements: dict
  sample:
    - name: v4-16
      topologies: [2x2x2]
      generation: v4
      chips: 8
      workers: 2
      runtime_version: tpu-ubuntu2204-base
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run
from ..module_utils._ansible.options import ZONE
from ..module_utils._schema.accelerators import default_runtime, parse
from ..module_utils._tpu.client import Client
from ..module_utils._tpu.names import natural_key
from ..module_utils._tpu.offers import AcceleratorTypeInfo


def facts_of(offered: AcceleratorTypeInfo) -> dict[str, Any]:
    """Describe a type, by what the zone says and what we know."""
    known = parse(offered.name)
    return {
        "name": offered.name,
        "topologies": offered.topologies,
        "generation": known.generation if known else None,
        "chips": known.chips if known else None,
        "workers": known.workers if known else None,
        "runtime_version": default_runtime(offered.name) or None,
    }


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """List the types."""
    name = module.params["name"]
    found = client.accelerator_types.list(module.params["zone"]).items
    found.sort(key=lambda offered: natural_key(offered.name))
    return {
        "changed": False,
        "accelerator_types": [facts_of(each) for each in found if name in (None, each.name)],
    }


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION, ZONE), execute)


if __name__ == "__main__":
    main()
