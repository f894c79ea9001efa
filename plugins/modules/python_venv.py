#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: python_venv
short_description: Build Python virtual environments with uv
version_added: 0.1.0
description:
  - Builds each environment in a folder of its own named after its content, checks it, and only then
    turns the link at its path to it. A build that fails leaves the old environment in use.
  - A program that runs in the old environment keeps it. Builds before are kept, so that the link
    can be turned back without a new build.
  - An environment whose content is as wanted is not touched, and no package index is asked.
  - What was installed is written to C(/var/lib/tpu-fleet/venvs/NAME.json), what was resolved,
    with hashes, to C(/var/lib/tpu-fleet/venvs/NAME.lock). Files next to an environment are not
    trusted.
  - All work in an environment is done as its owner. For root it is done as the system user
    C(tpu-fleet-build), to which the files then belong.
  - Works in two phases, so that several hosts can share what one of them resolved.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  phase:
    description:
      - V(prepare) installs uv and Python, and resolves what is not built yet.
      - V(build) builds, by the O(locks) that it is given; without one it resolves itself.
      - V(begin) starts both in another process, for environments that belong to root and need no
        file of a code tree. The other phases wait for it.
    type: str
    choices: [begin, prepare, build]
    default: build
  venvs:
    description: The environments.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the environment., type: str, required: true}
      path: {description: Path of the environment. It becomes a link., type: path, required: true}
      slices:
        description: Names of the slices that get it. Empty for all.
        type: list
        elements: str
        default: []
      python:
        description: Version of Python. The one of O(default_python) without it.
        type: str
        default: ""
      owner:
        description: User who builds it and may change it. For V(root) it is C(tpu-fleet-build).
        type: str
        default: root
      framework:
        description: Framework to install for the accelerator that the host has.
        type: str
        choices: [jax, torch_xla, torch_tpu, none]
        default: none
      framework_version:
        description: Version of the framework. The one of O(framework_versions) without it.
        type: str
        default: ""
      torch_version: {description: Version of PyTorch with V(torch_tpu)., type: str, default: ""}
      packages:
        description: Further packages, as in a requirements file.
        type: list
        elements: str
        default: []
      requirements:
        description: A requirements file, by its whole path or as V(TREE/FILE) in a code tree.
        type: str
        default: ""
      constraints:
        description: Constraints, as in a constraints file.
        type: list
        elements: str
        default: []
      editable:
        description:
          - Projects to install so that they are used where they are, named like
            O(venvs[].requirements).
        type: list
        elements: str
        default: []
      environment:
        description: Environment variables while it is built.
        type: dict
        default: {}
      activate_for:
        description: Users whose logins begin in it. For the role; the module does nothing with
          it.
        type: list
        elements: str
        default: []
  default_python: {description: Version of Python where none is named., type: str, default: "3.11"}
  framework_versions:
    description: Versions of the frameworks where none is named, by framework.
    type: dict
    default: {}
  locks:
    description:
      - What the first worker of the slice has, by wish, as its phase V(prepare) returns it. Where
        it differs from O(resolved), its versions are constraints for a resolution of this host. A
        lock with other packages is not used.
    type: dict
    default: {}
  resolved:
    description: What this host resolved itself, by wish, as its phase V(prepare) returns it.
    type: dict
    default: {}
  unresolved:
    description: What this host could not resolve, by wish, as phase V(prepare) returns it.
    type: dict
    default: {}
  stopped:
    description: How owners stopped the work before, by owner, as phase V(prepare) returns it.
    type: dict
    default: {}
  slice:
    description: Name of the slice that this host belongs to.
    type: str
    default: ""
  accelerator:
    description: What to install frameworks for. V(auto) looks for TPU chips.
    type: str
    choices: [auto, tpu, cpu]
    default: auto
  uv_version: {description: Version of uv., type: str, required: true}
  uv_dir: {description: Folder of all versions of uv., type: path, default: /opt/tpu-fleet/uv}
  cache_dir:
    description: Folder of downloaded packages.
    type: path
    default: /var/cache/tpu-fleet/uv
  python_source:
    description: Source of a Python that the system does not have.
    type: str
    choices: [uv, deadsnakes, conda]
    default: uv
  python_dir:
    description: Folder of Pythons that are not the system's.
    type: path
    default: /opt/tpu-fleet/python
  python_mirror:
    description: Address of a mirror of uv's builds of Python.
    type: str
    default: ""
  python_list: {description: List of builds of Python for uv., type: str, default: ""}
  conda: {description: "Program of conda, mamba or micromamba.", type: str, default: ""}
  conda_channel: {description: Where conda takes Python from., type: str, default: conda-forge}
  compile_bytecode:
    description: Whether to compile at once what users could not save when they import it.
    type: bool
    default: true
  index_url: {description: Package index., type: str, default: ""}
  extra_index_urls:
    description: Further package indexes.
    type: list
    elements: str
    default: []
  torch_index_url:
    description: Index of PyTorch's builds for the CPU. Empty for the ordinary one.
    type: str
    default: ""
  index_logins:
    description: Logins of indexes, by the names of their hosts.
    type: dict
    default: {}
  index_passwords:
    description: Passwords or tokens that go with O(index_logins), by the names of the hosts.
    type: dict
    default: {}
  shared_cache_url:
    description: Address of a shared cache of packages. Empty for none.
    type: str
    default: ""
  ca_bundle: {description: Certificates to trust., type: str, default: ""}
  environment:
    description: Further environment variables of uv and pip.
    type: dict
    default: {}
  secret_environment:
    description: The same for those that hold secrets.
    type: dict
    default: {}
  tries: {description: How often an index that is away is asked., type: int, default: 5}
  parallel: {description: How many are built at a time., type: int, default: 2}
  keep: {description: How many builds before the present one are kept., type: int, default: 2}
  rebuild:
    description: Whether to rebuild an environment that was changed by hand.
    type: bool
    default: false
  prune:
    description: Whether environments that this module built and that are not wanted any more go.
    type: bool
    default: false
  companions:
    description: Files that only make sense beside environments. RV(stale) lists them.
    type: list
    elements: path
    default: []
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows the packages before and after; in check mode what is asked for.
    support: full
"""

EXAMPLES = r"""
- name: Build an environment with JAX
  tpu.fleet.python_venv:
    uv_version: 0.13.8
    venvs:
      - name: jax
        path: /opt/venvs/jax
        python: "3.11"
        framework: jax
        framework_version: 0.10.2
        packages: [optax==0.2.8]
"""

RETURN = r"""
venvs:
  description: What each environment is, by name. In check mode those only that are as wanted.
  type: dict
  returned: in phase V(build)
  sample:
    jax:
      build: /opt/venvs/.jax-0123456789ab
      accelerator: cpu
      python_version: 3.11.2
      packages: {jax: 0.10.2}
removed:
  description: Folders of old builds that were removed.
  type: list
  elements: str
  returned: in phase V(build)
stale:
  description: The O(companions) that exist.
  type: list
  elements: str
  returned: in phase V(build)
locks:
  description: What was resolved, by wish.
  type: dict
  returned: in phase V(prepare)
unresolved:
  description: What could not be resolved, by wish.
  type: dict
  returned: in phase V(prepare)
stopped:
  description:
    - How owners stopped the work, or let it do nothing for a minute, by owner. No more is tried
      as these users.
  type: dict
  returned: in phase V(prepare)
delayed:
  description:
    - Why environments could not be built whose owners stopped the work or let it do nothing for a
      minute.
    - The module does not fail for these, so that they hold up nothing of other users.
  type: list
  elements: str
  returned: in phase V(build), if there are any
slice:
  description: Name of the slice that was given.
  type: str
  returned: success
"""

import contextlib
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.work import Failed
from ..module_utils._roles.python_env import ahead
from ..module_utils._roles.python_env.apply import Job

VENV_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "path": {"type": "path", "required": True},
    "slices": {"type": "list", "elements": "str", "default": []},
    "python": {"type": "str", "default": ""},
    "owner": {"type": "str", "default": "root"},
    "framework": {
        "type": "str",
        "choices": ["jax", "torch_xla", "torch_tpu", "none"],
        "default": "none",
    },
    "framework_version": {"type": "str", "default": ""},
    "torch_version": {"type": "str", "default": ""},
    "packages": {"type": "list", "elements": "str", "default": []},
    "requirements": {"type": "str", "default": ""},
    "constraints": {"type": "list", "elements": "str", "default": []},
    "editable": {"type": "list", "elements": "str", "default": []},
    "environment": {"type": "dict", "default": {}},
    "activate_for": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["begin", "prepare", "build"], "default": "build"},
            "venvs": {"type": "list", "elements": "dict", "required": True, "options": VENV_SPEC},
            "default_python": {"type": "str", "default": "3.11"},
            "framework_versions": {"type": "dict", "default": {}},
            "locks": {"type": "dict", "default": {}},
            "resolved": {"type": "dict", "default": {}},
            "unresolved": {"type": "dict", "default": {}},
            "stopped": {"type": "dict", "default": {}},
            "slice": {"type": "str", "default": ""},
            "accelerator": {"type": "str", "choices": ["auto", "tpu", "cpu"], "default": "auto"},
            "uv_version": {"type": "str", "required": True},
            "uv_dir": {"type": "path", "default": "/opt/tpu-fleet/uv"},
            "cache_dir": {"type": "path", "default": "/var/cache/tpu-fleet/uv"},
            "python_source": {
                "type": "str",
                "choices": ["uv", "deadsnakes", "conda"],
                "default": "uv",
            },
            "python_dir": {"type": "path", "default": "/opt/tpu-fleet/python"},
            "python_mirror": {"type": "str", "default": ""},
            "python_list": {"type": "str", "default": ""},
            "conda": {"type": "str", "default": ""},
            "conda_channel": {"type": "str", "default": "conda-forge"},
            "compile_bytecode": {"type": "bool", "default": True},
            "index_url": {"type": "str", "default": ""},
            "extra_index_urls": {"type": "list", "elements": "str", "default": []},
            "torch_index_url": {"type": "str", "default": ""},
            "index_logins": {"type": "dict", "default": {}},
            # Not beside the logins: Ansible writes those to the journal, where it hides a value
            # only as it is, and not as Python quotes it.
            "index_passwords": {"type": "dict", "default": {}, "no_log": True},
            "shared_cache_url": {"type": "str", "default": ""},
            "ca_bundle": {"type": "str", "default": ""},
            "environment": {"type": "dict", "default": {}},
            "secret_environment": {"type": "dict", "default": {}, "no_log": True},
            "tries": {"type": "int", "default": 5},
            "parallel": {"type": "int", "default": 2},
            "keep": {"type": "int", "default": 2},
            "rebuild": {"type": "bool", "default": False},
            "prune": {"type": "bool", "default": False},
            "companions": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    # What is installed is for everybody to read.
    os.umask(0o022)
    phase = module.params["phase"]
    try:
        if phase == "begin":
            job = Job(module.params, module.check_mode, module.warn)
            module.exit_json(changed=ahead.begin(job))
        # What exists is read when nobody else builds.
        with contextlib.nullcontext() if module.check_mode else ahead.alone():
            job = _job_of(module)
            result = job.prepare() if phase == "prepare" else job.build()
    except Failed as error:
        module.fail_json(msg=str(error))
    if job.failed:
        module.fail_json(msg=" ".join(job.failed), **result)
    module.exit_json(slice=module.params["slice"], **result)


def _job_of(module: AnsibleModule) -> Job:
    """Read what is declared and what exists."""
    job = Job(module.params, module.check_mode, module.warn)
    if job.wrong:
        module.fail_json(msg=" ".join(job.wrong))
    return job


if __name__ == "__main__":
    main()
