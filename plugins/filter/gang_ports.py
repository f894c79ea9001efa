# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say on which port the first worker of each run listens."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gang_ports
short_description: Say on which ports the workers of runs keep in touch
version_added: 0.1.0
description:
  - Returns a port for each run. Runs that are led on the same slice get different ones, as long as
    there are any. A run keeps its port when others are declared after it.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: _input, base, count
options:
  _input:
    description: The runs, as C(training_run_runs) has them.
    type: list
    elements: dict
    required: true
  base:
    description: First of the ports.
    type: int
    required: true
  count:
    description: How many ports there are.
    type: int
    default: 20
"""

EXAMPLES = r"""
- name: Show the ports
  ansible.builtin.debug:
    msg: "{{ training_run_runs | tpu.fleet.gang_ports(288) }}"
"""

RETURN = r"""
_value:
  description: Ports, by the name of the run.
  type: dict
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def _led_on(run: Mapping[str, Any]) -> list[str]:
    slices = [str(name) for name in run.get("slices") or ()]
    return slices[:1] if run.get("multislice") else slices


def gang_ports(runs: Iterable[Mapping[str, Any]], base: int, count: int = 20) -> dict[str, int]:
    """Give each run a port."""
    ports: dict[str, int] = {}
    taken: set[tuple[str, int]] = set()
    declared = list(runs or ())
    for run in sorted(declared, key=lambda run: not run.get("peer_port")):
        where = _led_on(run)
        start = int(hashlib.sha256(str(run["name"]).encode()).hexdigest()[:8], 16)
        wanted = [int(base) + (start + step) % int(count) for step in range(int(count))]
        if run.get("peer_port"):
            wanted = [int(run["peer_port"])]
        free = [port for port in wanted if not any((name, port) in taken for name in where)]
        port = (free or wanted)[0]
        ports[str(run["name"])] = port
        taken.update((name, port) for name in where)
    return ports


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"gang_ports": gang_ports}
