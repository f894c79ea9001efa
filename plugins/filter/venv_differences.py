# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the environments of several workers."""

from __future__ import annotations

DOCUMENTATION = r"""
name: venv_differences
short_description: List how the Python environments of a slice's workers differ
version_added: 0.1.0
description:
  - Compares what M(tpu.fleet.python_env) built on the workers of one slice.
  - A result that cannot be read is a difference of its worker.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  _input:
    description:
      - Variables of the workers, with the result of M(tpu.fleet.python_env) as
        C(__python_env_built).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Check that all workers have the same
  ansible.builtin.assert:
    that: groups['tpu_slice_pair'] | map('extract', hostvars) | tpu.fleet.venv_differences == []
"""

RETURN = r"""
_value:
  description: One text for each worker and environment; it names the worker and the packages.
  type: list
  elements: str
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..module_utils._core.answer import AnswerError, Words
from ..module_utils._core.worker_words import packages_of
from ..module_utils._roles.python_env.plan import differences

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}")


def venv_differences(workers: Iterable[Mapping[str, Any]]) -> list[str]:
    """List the differences between the workers of a slice."""
    found, refused = [], []
    for worker in workers:
        host = str(worker["inventory_hostname"])
        try:
            venvs = _venvs_of(Words(host, worker["__python_env_built"]))
        except AnswerError as error:
            refused.append(str(error).rstrip("."))
        else:
            found.append({"host": host, "slice": "", "venvs": venvs})
    return refused + differences(found)


def _venvs_of(built: Words) -> dict[str, Any]:
    return {
        name: {
            "python_version": venv.text("python_version"),
            "packages": packages_of(venv),
        }
        for name, venv in built.object("venvs", {}).named(_NAME, 1000).items()
    }


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"venv_differences": venv_differences}
