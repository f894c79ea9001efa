# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the keys by which the workers of a run know each other."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gang_keys
short_description: Create the keys with which the workers of a run authenticate each other
version_added: 0.1.0
description:
  - Returns one key for each run of a slice, made of the secret of the fleet. The workers of one
    slice, or of one run with C(multislice), get the same key; another slice gets another one.
  - The secret stays on the controller.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: _input, slice, secret
options:
  _input:
    description: The runs, as C(fleet_runs) has them.
    type: list
    elements: dict
    required: true
  slice:
    description: Name of the host's own slice.
    type: str
    required: true
  secret:
    description: Secret of the fleet. Where it is empty, there are no keys.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Count the keys of this host
  ansible.builtin.debug:
    msg: "{{ fleet_runs | tpu.fleet.gang_keys(tpu_vm_name, secret) | length }}"
"""

RETURN = r"""
_value:
  description: The keys, 64 hexadecimal digits each, by the name of the run.
  type: dict
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def gang_keys(runs: Iterable[Mapping[str, Any]], slice: str, secret: str) -> dict[str, str]:
    """Make one key for each run of a slice."""
    keys: dict[str, str] = {}
    for run in runs or ():
        slices = [str(name) for name in run.get("slices") or ()]
        if not secret or slice not in slices:
            continue
        gang = slices if run.get("multislice") else [slice]
        words = json.dumps(["tpu-fleet gang", str(run["name"]), gang])
        keys[str(run["name"])] = hmac.new(
            str(secret).encode(), words.encode(), hashlib.sha256
        ).hexdigest()
    return keys


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"gang_keys": gang_keys}
