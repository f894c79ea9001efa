#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: python_env
short_description: Build Python environments with uv
description:
  - Does on the machine what the role P(tpu.fleet.python_env#role) declares, in two phases, so that
    several hosts can share what one of them resolved.
options:
  phase:
    description:
      - V(prepare) installs uv and Python, and resolves what is not built yet. V(build) builds.
      - V(begin) starts both in another process, for environments that belong to root and need no
        file of a code tree. The other phases wait for it.
    type: str
    choices: [begin, prepare, build]
    default: build
  locks:
    description: What another worker has or resolved, by wish.
    type: dict
    default: {}
  resolved: {description: "What this host resolved, by wish.", type: dict, default: {}}
  unresolved: {description: "What it could not resolve, by wish.", type: dict, default: {}}
  stopped:
    description: How owners stopped the work, by owner. No more is tried as these users.
    type: dict
    default: {}
  shared_cache_url:
    description: Address of a cache of packages that the workers of a slice share.
    type: str
    default: ""
  companions:
    description: Files that only make sense beside environments; it returns those that exist.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - tpu.fleet.internal
  - tpu.fleet.internal.role
  - tpu.fleet.attributes
"""

EXAMPLES = r"""
- name: Build Python environments with uv
  tpu.fleet.python_env: "{{ 'python_env' | tpu.fleet.role_settings }}"
"""

RETURN = r"""#"""

import contextlib
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._ansible.role_module import role_module
from ..module_utils._host.work import Failed
from ..module_utils._roles.python_env import ahead
from ..module_utils._roles.python_env.apply import Job

# What the tasks pass on besides the variables of the role.
MORE: dict[str, dict[str, Any]] = {
    "phase": {"type": "str", "choices": ["begin", "prepare", "build"], "default": "build"},
    **{
        name: {"type": "dict", "default": {}}
        for name in ("locks", "resolved", "unresolved", "stopped")
    },
    "shared_cache_url": {"type": "str", "default": ""},
    "companions": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    """Run the module."""
    module, settings = role_module(**MORE)
    # All users read what is installed.
    os.umask(0o022)
    given = {**settings, **{name: module.params[name] for name in MORE}}
    phase = given["phase"]
    try:
        if phase == "begin":
            job = Job(given, module.check_mode, module.warn)
            module.exit_json(changed=ahead.begin(job))
        # No other build changes what exists while it is read.
        with contextlib.nullcontext() if module.check_mode else ahead.alone():
            job = _job_of(module, given)
            result = job.prepare() if phase == "prepare" else job.build()
    except Failed as error:
        module.fail_json(msg=str(error))
    if job.failed:
        module.fail_json(msg=" ".join(job.failed), **result)
    module.exit_json(slice=given["slice"], **result)


def _job_of(module: AnsibleModule, given: dict[str, Any]) -> Job:
    """Read what is declared and what exists."""
    job = Job(given, module.check_mode, module.warn)
    if job.wrong:
        module.fail_json(msg=" ".join(job.wrong))
    return job


if __name__ == "__main__":
    main()
