#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: runtime_version_info
short_description: List the runtime versions of a zone
version_added: 0.1.0
description:
  - Returns the runtime versions (images of the machines) that a zone offers. Run it on the
    controller.
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
  accelerator_type:
    description:
      - Return only versions that can drive this type. A version that is not known to be for other
        hardware is returned.
    type: str
seealso:
  - module: tpu.fleet.accelerator_type_info
"""

EXAMPLES = r"""
- name: See what can boot a v6e
  tpu.fleet.runtime_version_info:
    zone: us-east5-a
    accelerator_type: v6e-8
  register: images

- name: Say it
  ansible.builtin.debug:
    msg: "{{ images.runtime_versions }}"
"""

RETURN = r"""
runtime_versions:
  description: The versions.
  returned: success
  type: list
  elements: str
  sample: [tpu-ubuntu2204-base, v2-alpha-tpuv6e]
default:
  description: The version that Google names for the type's generation.
  returned: when O(accelerator_type) is given and known
  type: str
  sample: v2-alpha-tpuv6e
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.api_module import api_module, run
from ..module_utils._ansible.options import ZONE
from ..module_utils._schema.accelerators import default_runtime, runtime_fits
from ..module_utils._tpu.client import Client


def execute(module: AnsibleModule, client: Client) -> dict[str, Any]:
    """List the versions."""
    kind = module.params["accelerator_type"] or ""
    found = client.runtime_versions.list(module.params["zone"]).items
    default = default_runtime(kind)
    return {
        "changed": False,
        "runtime_versions": sorted(each for each in found if runtime_fits(kind, each)),
        **({"default": default} if default else {}),
    }


def main() -> None:
    """Run the module."""
    run(api_module(DOCUMENTATION, ZONE), execute)


if __name__ == "__main__":
    main()
