#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: python_venv
short_description: Build a Python virtual environment with uv
version_added: 0.1.0
description:
  - Builds the environment in a folder of its own named after its content, checks it, and only
    then turns the link at O(path) to it. A build that fails leaves the old environment in use.
  - A program that runs in the old environment keeps it. The last one is kept too; older ones that
    nobody uses are removed.
  - An environment whose content is as wanted is not touched, and no package index is asked.
  - What was installed is written to C(/var/lib/tpu-fleet/venvs/NAME.json).
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  name:
    description: Name of the environment.
    type: str
    required: true
  path:
    description: Where it is found. This becomes a link.
    type: path
    required: true
  python:
    description: Version of Python. The system's own is taken if it is that one, else uv gets it.
    type: str
    default: "3.11"
  owner:
    description: Who may change it.
    type: str
    default: root
  framework:
    description: Framework to install for the accelerator that the host has.
    type: str
    choices: [jax, none]
    default: none
  framework_version:
    description: Version of the framework.
    type: str
    default: ''
  accelerator:
    description: What to install the framework for. V(auto) looks for TPU chips.
    type: str
    choices: [auto, tpu, cpu]
    default: auto
  packages:
    description: Further packages, as in a requirements file.
    type: list
    elements: str
    default: []
  requirements:
    description: A requirements file on the host.
    type: path
  constraints:
    description: Constraints, as in a constraints file.
    type: list
    elements: str
    default: []
  uv:
    description: The program uv.
    type: path
    required: true
  cache_dir:
    description: Folder of downloaded packages.
    type: path
    default: /var/cache/tpu-fleet/uv
  python_dir:
    description: Folder of Pythons that are not the system's.
    type: path
    default: /opt/tpu-fleet/python
  compile_bytecode:
    description: Whether to compile at once what users could not save when they import it.
    type: bool
    default: true
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
    name: jax
    path: /opt/venvs/jax
    python: "3.11"
    framework: jax
    framework_version: 0.10.2
    packages: [optax==0.2.8]
    uv: /opt/tpu-fleet/uv/0.13.8/bin/uv
"""

RETURN = r"""
venv:
  description: What the environment is.
  type: dict
  returned: when not in check mode, or when nothing would change
  contains:
    build: {description: Folder that the path leads to, type: str, returned: always}
    hash: {description: Hash of what was asked for, type: str, returned: always}
    accelerator: {description: What it was built for, type: str, returned: always}
    python_version: {description: Version of Python, type: str, returned: always}
    packages: {description: Versions by package, type: dict, returned: always}
"""

import contextlib
import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._chips import generation_of, pci_devices
from ..module_utils._host_state import STATE_DIR, as_json, read_text, write_atomically
from ..module_utils._venvs import (
    VenvSpec,
    build_path,
    digest,
    problems,
    requirement_lines,
    unmet,
)

STAMP = ".tpu-fleet.json"
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Importing shows that the wheels fit this machine. It must never touch a chip that somebody uses.
PROBE = """
import importlib, json, re, sys
from importlib.metadata import distributions
if sys.argv[1] != "none":
    importlib.import_module(sys.argv[1])
names = {re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower(): d.version for d in distributions()}
print(json.dumps({"python": ".".join(map(str, sys.version_info[:3])), "packages": names}))
"""


class Failed(Exception):
    """A step did not succeed."""


class Builder:
    """Builds one environment, with the rights of its owner."""

    def __init__(self, params: dict[str, Any], owner: pwd.struct_passwd) -> None:
        self.params = params
        self.owner = owner

    def environment(self, user: pwd.struct_passwd) -> dict[str, str]:
        """Say what uv and Python are to see when they run as a user."""
        cache = self.params["cache_dir"] if user.pw_uid == 0 else f"{user.pw_dir}/.cache/uv"
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            "PATH": SAFE_PATH,
            "HOME": user.pw_dir,
            "UV_CACHE_DIR": cache,
            "UV_PYTHON_INSTALL_DIR": self.params["python_dir"],
            "UV_PYTHON_PREFERENCE": "system",
            "UV_COMPILE_BYTECODE": "1" if self.params["compile_bytecode"] else "0",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
            "JAX_PLATFORMS": "cpu",
            "TPU_SKIP_MDS_QUERY": "1",
        }

    def run(self, *argv: str, as_root: bool = False) -> str:
        """Run a command and give its output."""
        user = pwd.getpwuid(0) if as_root else self.owner
        rights: dict[str, Any] = {}
        if user.pw_uid != 0:
            rights = {
                "user": user.pw_uid,
                "group": user.pw_gid,
                "extra_groups": os.getgrouplist(user.pw_name, user.pw_gid),
            }
        # run_command cannot take on the rights of another user.
        # pylint: disable-next=ansible-bad-function
        done: subprocess.CompletedProcess[str] = subprocess.run(
            argv,
            cwd="/",
            env=self.environment(user),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            umask=0o022,
            **rights,
        )
        if done.returncode != 0:
            told = (done.stderr or done.stdout).strip().splitlines()
            raise Failed(f"{' '.join(argv[:3])} … failed: " + "\n".join(told[-25:]))
        return done.stdout

    def interpreter(self) -> str:
        """Find the wanted Python; get it when the system has none."""
        uv, wanted = self.params["uv"], self.params["python"]
        find = (uv, "python", "find", "--system", "--no-python-downloads", wanted)
        try:
            return self.run(*find, as_root=True).strip()
        except Failed:
            try:
                self.run(uv, "python", "install", wanted, as_root=True)
            except Failed as error:
                raise Failed(
                    f"This host has no Python {wanted}, and it could not be downloaded. Declare "
                    "the system's version, or name a mirror (UV_PYTHON_INSTALL_MIRROR in "
                    f"python_env_environment). {error}"
                ) from error
            return self.run(*find, as_root=True).strip()

    def build(self, spec: VenvSpec, folder: Path, accelerator: str) -> dict[str, Any]:
        """Build the environment, check it, and say what is in it."""
        uv = self.params["uv"]
        interpreter = self.interpreter()
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            # Left over from a build that was interrupted.
            shutil.rmtree(folder)
        folder.mkdir(mode=0o755)
        os.chown(folder, self.owner.pw_uid, self.owner.pw_gid, follow_symlinks=False)
        self.run(uv, "venv", "--quiet", "--seed", "--clear", "--python", interpreter, str(folder))

        arguments: list[str] = []
        for option, name, lines in (
            ("--requirements", "asked.txt", requirement_lines(spec, accelerator)),
            ("--constraints", "constraints.txt", list(spec.constraints)),
        ):
            if lines:
                path = folder / name
                write_atomically(path, "".join(f"{line}\n" for line in lines))
                arguments += [option, str(path)]
        if self.params["requirements"]:
            arguments += ["--requirements", self.params["requirements"]]
        python = str(folder / "bin" / "python")
        if "--requirements" in arguments:
            # Files shared with the cache would let the owner change what others install.
            mode = "hardlink" if self.owner.pw_uid == 0 else "copy"
            command = (uv, "pip", "install", "--quiet", "--link-mode", mode, "--python", python)
            self.run(*command, *arguments)
        seen: dict[str, Any] = json.loads(self.run(python, "-I", "-c", PROBE, spec.framework))
        wrong = unmet(spec, accelerator, seen["python"], seen["packages"])
        if wrong:
            raise Failed("What was installed is not what was asked for: " + "; ".join(wrong))
        return seen


def uses(folder: str) -> bool:
    """Tell whether a process uses a folder."""
    needle = folder.encode()
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("maps", "cmdline", "environ"):
            with contextlib.suppress(OSError):
                if needle in (process / name).read_bytes():
                    return True
    return False


def switch(path: Path, build: Path) -> str | None:
    """Turn the link to the build in one step; give the build that it led to."""
    last = str(path.readlink()) if path.is_symlink() else None
    trial = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        trial.unlink()
    trial.symlink_to(build)
    trial.replace(path)
    return last


def prune(path: Path, keep: set[str]) -> list[str]:
    """Remove builds that are neither kept nor used."""
    removed = []
    for folder in path.parent.glob(f".{path.name}-*"):
        stamped = (folder / STAMP).exists()
        if stamped and str(folder) not in keep and not uses(f"{folder}/"):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(str(folder))
    return removed


def listing(packages: dict[str, str]) -> str:
    """Write packages for a diff."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))


def wanted_spec(module: AnsibleModule) -> VenvSpec:
    """Read the wish."""
    params = module.params
    text = ""
    if params["requirements"]:
        found = read_text(params["requirements"])
        if found is None and not module.check_mode:
            module.fail_json(
                msg=f"python_env_venvs: venv {params['name']!r}: requirements = "
                f"{params['requirements']!r} is no file on this host."
            )
        text = found or ""
    return VenvSpec(
        name=params["name"],
        path=params["path"],
        python=params["python"],
        framework=params["framework"],
        framework_version=params["framework_version"],
        packages=tuple(params["packages"]),
        requirements=text,
        constraints=tuple(params["constraints"]),
    )


def the_owner(module: AnsibleModule) -> pwd.struct_passwd:
    """Look the owner up."""
    name = module.params["owner"]
    try:
        return pwd.getpwnam(name)
    except KeyError:
        if module.check_mode:
            # Perhaps an earlier step would have made the user.
            return pwd.getpwuid(0)
        module.fail_json(
            msg=f"python_env_venvs: venv {module.params['name']!r}: owner = {name!r} "
            "is no user of this host."
        )
        raise


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "python": {"type": "str", "default": "3.11"},
            "owner": {"type": "str", "default": "root"},
            "framework": {"type": "str", "choices": ["jax", "none"], "default": "none"},
            "framework_version": {"type": "str", "default": ""},
            "accelerator": {"type": "str", "choices": ["auto", "tpu", "cpu"], "default": "auto"},
            "packages": {"type": "list", "elements": "str", "default": []},
            "requirements": {"type": "path"},
            "constraints": {"type": "list", "elements": "str", "default": []},
            "uv": {"type": "path", "required": True},
            "cache_dir": {"type": "path", "default": "/var/cache/tpu-fleet/uv"},
            "python_dir": {"type": "path", "default": "/opt/tpu-fleet/python"},
            "compile_bytecode": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    spec = wanted_spec(module)
    wrong = problems(spec)
    if wrong:
        module.fail_json(msg=" ".join(wrong))
    accelerator = params["accelerator"]
    if accelerator == "auto":
        accelerator = "tpu" if generation_of(pci_devices()) else "cpu"
    owner = the_owner(module)

    path = Path(params["path"])
    content = digest(spec, accelerator)
    build = Path(build_path(spec, content))
    if path.exists() and not path.is_symlink():
        module.fail_json(
            msg=f"python_env_venvs: venv {spec.name!r}: {path} is there already and was not made "
            "by tpu.fleet. Move it away or declare another path."
        )
    record = Path(STATE_DIR) / "venvs" / f"{spec.name}.json"
    before = json.loads(read_text(record) or "{}")
    stamp = read_text(build / STAMP)
    # A build without its Python is one whose system was upgraded below it.
    sound = stamp is not None and (build / "bin" / "python").exists()
    linked = path.is_symlink() and path.readlink() == build
    if sound and linked and read_text(record) == stamp:
        module.exit_json(changed=False, venv=json.loads(stamp or "{}"))
    if module.check_mode:
        asked = "".join(f"{line}\n" for line in requirement_lines(spec, accelerator))
        difference = {"before": listing(before.get("packages", {})), "after": asked}
        module.exit_json(changed=True, diff={**difference, "after_header": "asked for"})

    try:
        if not sound:
            seen = Builder(params, owner).build(spec, build, accelerator)
            stamp = as_json(
                {
                    "name": spec.name,
                    "path": str(path),
                    "build": str(build),
                    "hash": content,
                    "accelerator": accelerator,
                    "framework": spec.framework,
                    "owner": owner.pw_name,
                    "python_version": seen["python"],
                    "packages": seen["packages"],
                }
            )
            write_atomically(build / STAMP, stamp)
        last = switch(path, build)
        record.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(record, stamp or "")
        removed = prune(path, {str(build), last or ""})
    except (Failed, OSError) as error:
        if read_text(build / STAMP) is None:
            shutil.rmtree(build, ignore_errors=True)
        still = " The old environment is still in use." if linked or path.is_symlink() else ""
        module.fail_json(msg=f"Cannot build the environment {spec.name!r}.{still} {error}")
    venv = json.loads(stamp or "{}")
    module.exit_json(
        changed=True,
        venv=venv,
        removed=removed,
        diff={
            "before": listing(before.get("packages", {})),
            "after": listing(venv.get("packages", {})),
        },
    )


if __name__ == "__main__":
    main()
