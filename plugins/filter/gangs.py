# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say which hosts a run over several slices has."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gangs
short_description: List the hosts of runs over several slices
version_added: 0.1.0
description:
  - For each run with C(multislice) true, returns the addresses of the workers of its slices, slice
    by slice in the order of its C(slices). For its own slice a host trusts what it knows itself.
  - While of one of the slices nothing is known, or not everything, the list is empty.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: _input, slice, hosts, peers
options:
  _input:
    description: The runs of a host, as C(training_run_runs) has them.
    type: list
    elements: dict
    required: true
  slice:
    description: Name of the host's own slice.
    type: str
    required: true
  hosts:
    description: Addresses of its workers, in worker order.
    type: list
    elements: str
    required: true
  peers:
    description: All workers of the fleet, as the filter P(tpu.fleet.nfs_hosts#filter) returns them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show whom the gangs of this host have
  ansible.builtin.debug:
    msg: "{{ training_run_runs | tpu.fleet.gangs(tpu_vm_name, tpu_vm_slice_hosts, peers) }}"
  vars:
    peers: "{{ hostvars | tpu.fleet.nfs_hosts }}"
"""

RETURN = r"""
_value:
  description: Lists of addresses, one for each slice, by the name of the run.
  type: dict
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def gangs(
    runs: Iterable[Mapping[str, Any]],
    slice: str,
    hosts: Sequence[str],
    peers: Iterable[Mapping[str, Any]],
) -> dict[str, list[list[str]]]:
    """List the hosts of runs over several slices."""
    known: dict[str, dict[int, str]] = {}
    for peer in peers:
        if peer.get("address"):
            known.setdefault(str(peer["slice"]), {})[int(peer["worker"])] = str(peer["address"])
    found = {}
    for run in runs:
        if not run.get("multislice"):
            continue
        lists = []
        for name in run.get("slices") or ():
            there = dict(enumerate(hosts)) if name == slice else known.get(str(name), {})
            # A number that is missing is a worker of which nothing is known.
            whole = sorted(there) == list(range(len(there)))
            lists.append([there[number] for number in sorted(there)] if whole else [])
        found[str(run["name"])] = lists if all(lists) else []
    return found


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"gangs": gangs}
