# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say where on the controller the files of a run go."""

from __future__ import annotations

DOCUMENTATION = r"""
name: collect_places
short_description: Say where on the controller the files that a run left go
version_added: 0.1.0
description:
  - Refuses every place that is not inside of the folder, also where a link in the folder leads out
    of it.
author:
  - The tpu.fleet authors (@tpu-fleet)
positional: folder, worker
options:
  _input:
    description: What the run left, as P(tpu.fleet.worker_answer#filter) reads it.
    type: list
    elements: dict
    required: true
  folder:
    description: The worker's folder on the controller.
    type: path
    required: true
  worker:
    description: Name of the worker, for errors.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show them
  ansible.builtin.debug:
    msg: "{{ fleet_left | tpu.fleet.collect_places('/tmp/collected', 'solo') }}"
"""

RETURN = r"""
_value:
  description: Each file with C(src), its path on the worker, and C(dest), its path here.
  type: list
  elements: dict
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ansible.errors import AnsibleFilterError

from ..module_utils._core.worker_words import shown


def collect_places(
    left: Iterable[Mapping[str, str]], folder: str, worker: str
) -> list[dict[str, str]]:
    """List source and destination of each file."""
    real = Path(folder).expanduser().resolve()
    places = []
    for entry in left:
        dest = Path(folder).expanduser() / entry["to"] / entry["name"]
        # resolve follows links, also those in the middle.
        if real not in dest.resolve().parents or dest.is_symlink():
            raise AnsibleFilterError(
                f"{worker}: {shown(dest)} is not inside of {folder}: a link leads elsewhere. "
                "Remove the link, and collect again."
            )
        places.append({"src": f"{entry['base']}/{entry['name']}", "dest": str(dest)})
    return places


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Name the filters."""
        return {"collect_places": collect_places}
