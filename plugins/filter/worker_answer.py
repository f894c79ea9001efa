# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a worker answered."""

from __future__ import annotations

DOCUMENTATION = r"""
name: worker_answer
short_description: Read what a worker answered, or refuse it
version_added: 0.1.0
description:
  - Makes checked values of the text that a program printed on a worker. A worker may be in other
    hands; what is not as it must be is an error that names the worker, the field and the value.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: kind, worker
options:
  _input:
    description: What the worker answered.
    type: str
    required: true
  kind:
    description: What it was asked for.
    type: str
    choices: [address, git_users, left, runs, services, standing]
    required: true
  worker:
    description: Name of the worker, for errors.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Keep the address that this worker sees
  ansible.builtin.set_fact:
    fleet_seen: "{{ fleet_read.stdout | tpu.fleet.worker_answer('address', inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: What was read.
  type: raw
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._core.worker_words import READERS
from ..plugin_utils.worker_facts import read_answer


def worker_answer(answer: Any, kind: str, worker: str) -> Any:
    """Read it."""
    if kind not in READERS:
        raise AnsibleFilterError(f"kind: {kind!r} is none of {', '.join(READERS)}.")
    return read_answer(answer, kind, worker)


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"worker_answer": worker_answer}
