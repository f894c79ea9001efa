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
  - What was installed is written to C(/var/lib/tpu-fleet/venvs/NAME.json), what was resolved, with
    hashes, to C(/var/lib/tpu-fleet/venvs/NAME.lock). Nothing that lies beside an environment is
    believed.
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
    type: str
    choices: [prepare, build]
    default: build
  venvs:
    description: The environments.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the environment., type: str, required: true}
      path: {description: Where it is found. This becomes a link., type: path, required: true}
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
        description: Who builds it and may change it. For V(root) that is C(tpu-fleet-build).
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
        description: Who begins in it. For the role; the module does nothing with it.
        type: list
        elements: str
        default: []
  default_python: {description: Version of Python where none is named., type: str, default: "3.11"}
  framework_versions:
    description: Versions of the frameworks where none is named, by framework.
    type: dict
    default: {}
  locks:
    description: What was resolved before, by wish, as phase V(prepare) returns it.
    type: dict
    default: {}
  unresolved:
    description: What this host could not resolve, by wish, as phase V(prepare) returns it.
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
    description: Where a Python comes from that the system does not have.
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
    description: Whether to build anew what somebody changed by hand.
    type: bool
    default: false
  prune:
    description: Whether environments that this module built and that are not wanted any more go.
    type: bool
    default: false
  companions:
    description: Files that only make sense beside environments. RV(stale) tells of them.
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
  description: Which of the O(companions) are there.
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
slice:
  description: Name of the slice that was given.
  type: str
  returned: success
"""

import json
import os
import pwd
import re
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import account_of, foreign, read_plain
from ..module_utils._host.chips import generation_of, pci_devices
from ..module_utils._host.state import (
    STATE_DIR,
    VENVS_OF_ROLES,
    as_json,
    read_text,
    write_atomically,
)
from ..module_utils._roles.python_env import build as venv_build
from ..module_utils._roles.python_env.build import (
    Builder,
    Failed,
    Site,
    Tools,
    acting,
    builds_of,
    discard,
    included,
    is_whole,
    note_build,
    packages_in,
    prune,
    site_of,
    switch,
    target_of,
)
from ..module_utils._roles.python_env.plan import (
    PROJECT_FILES,
    Editable,
    VenvSpec,
    asked_lines,
    build_path,
    changes,
    digest,
    freeze_hash,
    has_hashes,
    lock_lines,
    problems,
    strange_lines,
    unknown_package,
    wish,
    wish_of_all,
)

TREES = Path(STATE_DIR) / "code"
MOST_DEPTH = 9

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


@dataclass
class Venv:
    """One environment: what is wanted, and what is there."""

    spec: VenvSpec
    # The requirements file, and what it includes.
    files: dict[str, str]
    wish: str
    # Nothing where its owner is no user of this host.
    site: Site | None = None
    no_site: str = ""
    before: dict[str, Any] = field(default_factory=dict)
    # All builds that root knows, the last used first.
    builds: list[dict[str, Any]] = field(default_factory=list)
    # Where its link leads.
    link: str | None = None
    # What there is, or was built: the stamp.
    stamp: dict[str, Any] = field(default_factory=dict)
    lock: str = ""
    error: str = ""
    changed: bool = False
    removed: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """Give where it is found."""
        return Path(self.spec.path)

    @property
    def record(self) -> Path:
        """Give where it is recorded."""
        return venv_build.RECORDS / f"{self.spec.name}.json"

    def placed(self) -> Site:
        """Give where it lies and who works there."""
        if self.site is None:
            raise Failed(self.no_site)
        return self.site

    def known_lock(self) -> str:
        """Give what was resolved for this wish before, by a build that is still there."""
        for stamp in self.builds:
            if stamp.get("wish") == self.wish:
                return str(stamp.get("lock", ""))
        return ""


def reader_of(path: str) -> pwd.struct_passwd:
    """Find with whose rights a path is read: with those of the first who can change the way."""
    part = foreign(path)
    if part is not None:
        try:
            found = pwd.getpwuid(os.lstat(part).st_uid)
        except (KeyError, OSError):
            found = None
        # A folder of root's that everybody can write is read as nobody in particular.
        if found is None or found.pw_uid == 0:
            found = account_of("nobody")
        if found is not None:
            return found
    return pwd.getpwuid(os.geteuid())


def read_requirements(path: str, depth: int = 0) -> dict[str, str]:
    """Read a requirements file with all that it includes: text by path, its own first."""
    content = read_plain(os.path.realpath(path))
    if content is None:
        return {}
    text = content.decode("utf-8", "surrogateescape")
    found = {path: text}
    for line in text.splitlines():
        inner = included(line)
        if inner and depth <= MOST_DEPTH:
            there = os.path.normpath(Path(path).parent / inner)
            if there not in found:
                found.update(read_requirements(there, depth + 1))
    return found


def read_project(folder: str) -> str:
    """Read what a project says of itself."""
    found = [read_plain(os.path.realpath(Path(folder, name))) or b"" for name in PROJECT_FILES]
    return b"".join(found).decode("utf-8", "surrogateescape")


def link_of(path: Path) -> dict[str, Any]:
    """Say where a link leads, or that something else is there."""
    return {"link": target_of(path), "other": path.exists() and not path.is_symlink()}


def joined(files: Mapping[str, str], path: str, depth: int = 0) -> str:
    """Give the text of a requirements file with those of all that it includes."""
    text = files.get(path, "")
    if depth > MOST_DEPTH:
        return text
    for line in text.splitlines():
        inner = included(line)
        if inner:
            there = os.path.normpath(Path(path).parent / inner)
            text += f"# {inner}\n{joined(files, there, depth + 1)}"
    return text


class Job:
    """All environments of one run of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        venv_build.too_slow.clear()
        logins, passwords = module.params["index_logins"], module.params["index_passwords"]
        credentials = [
            {"host": host, "username": logins[host], "password": passwords.get(host, "")}
            for host in sorted(logins)
        ]
        self.params: dict[str, Any] = {**module.params, "index_credentials": credentials}
        self.tools = Tools(self.params, module.warn)
        accelerator = self.params["accelerator"]
        if accelerator == "auto":
            accelerator = "tpu" if generation_of(pci_devices()) else "cpu"
        self.accelerator = accelerator
        self.wrong: list[str] = []
        self.venvs = [
            self.wanted(entry)
            for entry in self.params["venvs"]
            if not entry["slices"] or self.params["slice"] in entry["slices"]
        ]
        if self.params["python_source"] == "conda" and not self.has(self.params["conda"]):
            for venv in self.venvs:
                self.need_no_conda(venv.spec)

    def has(self, program: str) -> bool:
        """Tell whether this host has a program."""
        return shutil.which(program, path=venv_build.SAFE_PATH) is not None

    def need_no_conda(self, spec: VenvSpec) -> None:
        """Check that this host has a Python already, where there is no conda to give it."""
        minor = ".".join(spec.python.split(".")[:2])
        folder = Path(self.params["python_dir"]) / f"conda-{spec.python}"
        if not self.has(f"python{minor}") and not folder.exists():
            self.wrong.append(
                f"python_env_venvs: venv {spec.name!r}: python = {spec.python!r} is not on this "
                "host, and python_env_python_source = 'conda' cannot give it: python_env_conda = "
                f"{self.params['conda']!r} is no program here. Let startup_script of the slice "
                "install it and name its whole path, or set python_env_python_source to uv."
            )

    # Reading the wish

    def place(self, at: str, given: str) -> tuple[str, str]:
        """Find a path: a folder that may be a link, and what is named below it."""
        if given.startswith("/"):
            return given, ""
        tree, _slash, rest = given.partition("/")
        record = json.loads(read_text(TREES / f"{tree}.json") or "{}")
        if not record.get("declared", "path" in record):
            if not self.module.check_mode:
                self.wrong.append(
                    f"{at} = {given!r} is no whole path, and this host has no code tree {tree!r}. "
                    "Declare it in code_checkout_trees, which is applied before."
                )
            return "/nonexistent", given
        return str(record["path"]), rest

    def read(self, at: str, given: str, work: Callable[[str], Any]) -> tuple[str, Any]:
        """Give where a path really is, and what is read there, with the rights of its owner."""
        top, rest = self.place(at, given)

        def look() -> list[Any]:
            real = os.path.normpath(Path(os.path.realpath(top), rest))
            return [real, work(real)]

        try:
            real, found = acting(reader_of(str(Path(top, rest))), look)
        except Failed as error:
            self.wrong.append(f"{at} = {given!r}: {Path(top, rest)} cannot be read: {error}.")
            return given, None
        return str(real), found

    def wanted(self, entry: dict[str, Any]) -> Venv:
        """Read the wish for one environment."""
        at = f"python_env_venvs: venv {entry['name']!r}"
        files: dict[str, str] = {}
        text = ""
        if entry["requirements"]:
            source, found = self.read(
                f"{at}: requirements", entry["requirements"], read_requirements
            )
            files = found or {}
            if not files and not self.module.check_mode and not self.wrong:
                given = entry["requirements"]
                path = Path(*self.place(at, given))
                self.wrong.append(
                    f"{at}: requirements = {given!r}: {path} is no file on this host."
                )
            text = joined(files, source)
        editable = []
        for given in entry["editable"]:
            match = re.fullmatch(r"([^\[\]]+)(\[[^\[\]]*\])?", given.strip())
            if match is None:
                self.wrong.append(f"{at}: editable = {given!r} is no folder.")
                continue
            folder, project = self.read(f"{at}: editable", match[1], read_project)
            if not project and not self.module.check_mode and not self.wrong:
                path = Path(*self.place(at, match[1]))
                self.wrong.append(
                    f"{at}: editable = {given!r} is no project: {path} has neither "
                    f"{' nor '.join(PROJECT_FILES)}."
                )
            editable.append(Editable(folder, match[2] or "", project or ""))
        spec = VenvSpec(
            name=entry["name"],
            path=entry["path"],
            python=entry["python"] or self.params["default_python"],
            framework=entry["framework"],
            framework_version=entry["framework_version"]
            or str(self.params["framework_versions"].get(entry["framework"], "")),
            torch_version=entry["torch_version"],
            packages=tuple(entry["packages"]),
            requirements=text,
            constraints=tuple(entry["constraints"]),
            editable=tuple(editable),
            environment=tuple((str(k), str(v)) for k, v in sorted(entry["environment"].items())),
            owner=entry["owner"],
        )
        wrong = problems(spec)
        self.wrong += wrong
        if wrong:
            return Venv(spec, files, "")
        has_torch = bool(self.params["torch_index_url"])
        venv = Venv(spec, files, wish(spec, self.accelerator, torch_index=has_torch))
        try:
            venv.site = site_of(venv.path, spec.owner, create=not self.module.check_mode)
            there = acting(venv.site.keeper, lambda: link_of(venv.path))
        except Failed as error:
            venv.no_site, there = str(error), {}
        venv.link = there.get("link")
        if there.get("other"):
            self.wrong.append(
                f"{at}: {venv.path} is there already and was not made by tpu.fleet. Move it away "
                "or declare another path."
            )
        venv.before = json.loads(read_text(venv.record) or "{}")
        venv.builds = builds_of(spec.path) or self.taken_over(venv)
        return venv

    def taken_over(self, venv: Venv) -> list[dict[str, Any]]:
        """Give the build that version 0.1 recorded: it knew no owner in a wish, and no hashes.

        Only what lies in the folder of records counts, which is root's. What such a build was
        resolved to says which versions are installed anew; it is never installed from.
        """
        has_torch = bool(self.params["torch_index_url"])
        asked = wish_of_all(venv.spec, self.accelerator, torch_index=has_torch)
        lock = read_text(venv.record.with_suffix(".lock")) or ""
        known = {"wish": asked, "hash": digest(asked, lock), "owner": venv.spec.owner}
        known["path"] = venv.spec.path
        if venv.site is None or any(venv.before.get(key) != known[key] for key in known):
            return []
        new = {"wish": venv.wish, "hash": digest(venv.wish, lock), "lock": lock}
        return [{**venv.before, **new}]

    def builder(self, venv: Venv) -> Builder:
        """Give what builds an environment."""
        return Builder(self.tools, venv.spec, self.accelerator, venv.files)

    # The two phases

    def prepare(self) -> dict[str, Any]:
        """Have the tools, and a lock for each environment."""
        if self.module.check_mode:
            missing = not Path(self.tools.uv).exists()
            return {"changed": missing, "locks": self.locks(), "unresolved": {}}
        pending = [venv for venv in self.venvs if not venv.known_lock()]
        if pending or not Path(self.tools.uv).exists():
            with self.tools.at_work():
                try:
                    self.tools.have_uv()
                except Failed as error:
                    self.module.fail_json(msg=f"Cannot install uv. {error}")
                for_python = sorted({venv.spec.python for venv in pending})
                for python in for_python:
                    # One at a time: several environments want the same.
                    try:
                        self.tools.interpreter(python)
                    except Failed as error:
                        for venv in pending:
                            if venv.spec.python == python:
                                venv.error = str(error)
                self.each([venv for venv in pending if not venv.error], self.resolve)
        failed = {venv.wish: venv.error for venv in self.venvs if venv.error}
        return {"changed": bool(self.tools.did), "locks": self.locks(), "unresolved": failed}

    def locks(self) -> dict[str, str]:
        """Say what is resolved, for other hosts with the same wish."""
        found = {venv.wish: venv.lock or venv.known_lock() for venv in self.venvs}
        return {wanted: lock for wanted, lock in found.items() if lock}

    def resolve(self, venv: Venv) -> None:
        """Resolve one environment."""
        venv.lock = self.builder(venv).resolve(venv.placed().owner)

    def build(self) -> dict[str, Any]:
        """Bring all environments to what is wanted."""
        wanted: list[Venv] = []
        for venv in self.venvs:
            venv.lock = self.given_lock(venv) or venv.known_lock()
            try:
                settled = self.settled(venv)
            except Failed as error:
                venv.error, settled = str(error), False
            if not settled:
                wanted.append(venv)
        gone = self.undeclared()
        if self.module.check_mode:
            for venv in wanted:
                venv.changed = True
            return self.told(wanted, bool(wanted or gone), gone)
        if wanted:
            with self.tools.at_work():
                try:
                    self.tools.have_uv()
                except Failed as error:
                    self.module.fail_json(msg=f"Cannot install uv. {error}")
                for venv in wanted:
                    if not venv.lock:
                        venv.error = venv.error or self.params["unresolved"].get(venv.wish, "")
                self.each([venv for venv in wanted if not venv.error], self.build_one)
        removed = [folder for record in gone for folder in self.remove(record)]
        for venv in self.venvs:
            if not venv.error:
                try:
                    venv.removed = prune(
                        venv.placed(), venv.stamp.get("build"), self.params["keep"]
                    )
                except Failed as error:
                    self.module.warn(f"Old builds of {venv.spec.name!r} stay: {error}")
                removed += venv.removed
        broken = [venv for venv in wanted if venv.error]
        result = self.told(wanted, bool(removed) or any(venv.changed for venv in wanted), removed)
        if broken:
            self.module.fail_json(
                msg=" ".join(
                    f"Cannot build the environment {venv.spec.name!r}."
                    f"{' The old one is still in use.' if venv.path.is_symlink() else ''} "
                    f"{unknown_package(venv.spec, venv.error)}{venv.error}"
                    for venv in broken
                ),
                **result,
            )
        return result

    def given_lock(self, venv: Venv) -> str:
        """Give what another worker resolved for this wish, if nothing in it is strange."""
        lock = str(self.params["locks"].get(venv.wish, ""))
        strange = strange_lines(lock, venv.spec)
        if strange:
            self.module.warn(
                f"What another worker resolved for {venv.spec.name!r} is not used, for it holds "
                f"what nobody asked for: {', '.join(map(repr, strange[:5]))}."
            )
            return ""
        return lock

    def settled(self, venv: Venv) -> bool:
        """Tell whether an environment is as wanted, and note what it is."""
        if not venv.lock or venv.site is None:
            return False
        found = self.sound(venv, digest(venv.wish, venv.lock))
        if found is None:
            return False
        venv.stamp = found
        return venv.link == found["build"] and venv.before == self.recorded(venv)

    def sound(self, venv: Venv, content: str) -> dict[str, Any] | None:
        """Find a complete build of a content."""
        owner = venv.placed().owner
        for stamp in venv.builds:
            if stamp.get("hash") != content or stamp.get("owner") != venv.spec.owner:
                continue
            folder = Path(stamp["build"])

            def look(folder: Path = folder) -> list[Any]:
                return [is_whole(folder), packages_in(folder)]

            whole, packages = acting(owner, look)
            if not whole:
                continue
            by_hand = changes(packages, stamp["packages"])
            if by_hand and self.params["rebuild"]:
                continue
            if by_hand:
                self.module.warn(
                    f"Somebody changed the environment {venv.spec.name!r} by hand: "
                    + ", ".join(by_hand)
                    + ". Declare it, or build it anew with python_env_rebuild=true."
                )
            return stamp
        return None

    def recorded(self, venv: Venv) -> dict[str, Any]:
        """Say what is recorded of an environment."""
        return {
            **{key: value for key, value in venv.stamp.items() if key != "lock"},
            "name": venv.spec.name,
            "path": venv.spec.path,
        }

    def build_one(self, venv: Venv) -> None:
        """Build one environment when it is not there, and turn its link to it."""
        site = venv.placed()
        builder = self.builder(venv)
        if not venv.lock:
            venv.lock = builder.resolve(site.owner)
        stamp = self.sound(venv, digest(venv.wish, venv.lock))
        if stamp is None:
            if not has_hashes(venv.lock):
                venv.lock = builder.resolve(site.owner, venv.lock)
            stamp = self.built(venv, builder, site)
        venv.stamp = stamp
        build = Path(stamp["build"])
        acting(site.keeper, lambda: switch(venv.path, build))
        note_build(stamp)
        write_atomically(venv.record.with_suffix(".lock"), stamp["lock"])
        write_atomically(venv.record, as_json(self.recorded(venv)))
        venv.changed = True

    def built(self, venv: Venv, builder: Builder, site: Site) -> dict[str, Any]:
        """Build it, and say what it is."""
        content = digest(venv.wish, venv.lock)
        taken = {stamp["build"] for stamp in venv.builds}
        serial = 1
        while build_path(venv.spec, content, serial) in taken:
            serial += 1
        folder = Path(build_path(venv.spec, content, serial))
        try:
            seen = builder.build(venv.lock, folder, site)
        except (Failed, OSError):
            discard(site, folder)
            raise
        return {
            "build": str(folder),
            "path": venv.spec.path,
            "hash": content,
            "wish": venv.wish,
            "lock": "".join(f"{line}\n" for line in lock_lines(venv.lock)),
            "accelerator": self.accelerator,
            "framework": venv.spec.framework,
            "framework_version": venv.spec.framework_version,
            "owner": venv.spec.owner,
            "python": seen["interpreter"],
            "python_version": seen["python"],
            "packages": seen["packages"],
            "freeze": freeze_hash(seen["python"], seen["packages"]),
            "uv": self.params["uv_version"],
        }

    def each(self, venvs: list[Venv], action: Any) -> None:
        """Do the same for several environments at a time; an error is of one of them."""

        def guarded(venv: Venv) -> None:
            try:
                action(venv)
            except (Failed, OSError) as error:
                venv.error = str(error)

        with ThreadPoolExecutor(max_workers=max(1, self.params["parallel"])) as pool:
            list(pool.map(guarded, venvs))

    # What is not wanted any more

    def undeclared(self) -> list[str]:
        """List the names of what was built here and is not wanted any more."""
        if not self.params["prune"]:
            return []
        declared = {venv.spec.name for venv in self.venvs}
        known = {
            p.stem: json.loads(read_text(p) or "{}") for p in venv_build.RECORDS.glob("*.json")
        }
        return sorted(
            name
            for name, record in known.items()
            if name not in declared and not str(record.get("path")).startswith(VENVS_OF_ROLES)
        )

    def remove(self, name: str) -> list[str]:
        """Remove an environment; what a process uses stays until the next time."""
        record = venv_build.RECORDS / f"{name}.json"
        known = json.loads(read_text(record) or "{}")
        path, build = Path(known.get("path", "/nonexistent")), known.get("build", "")
        owner = str(known.get("owner", "root"))
        removed = []
        # What a user had who is gone is theirs.
        if path not in {venv.path for venv in self.venvs} and account_of(owner):
            try:
                removed = self.taken_away(path, owner, build)
            except Failed as error:
                self.module.warn(f"The environment {name!r} stays: {error}")
                return []
            if builds_of(str(path)):
                return removed
        record.unlink()
        lock = record.with_suffix(".lock")
        if lock.exists():
            lock.unlink()
        return [*removed, str(record)]

    def taken_away(self, path: Path, owner: str, build: str) -> list[str]:
        """Remove a link that leads to a build of ours, and the builds."""
        site = site_of(path, owner)

        def unlinked() -> bool:
            ours = bool(build) and target_of(path) == build
            if ours:
                path.unlink()
            return ours

        gone = [str(path)] if acting(site.keeper, unlinked) else []
        return gone + prune(site, None, 0)

    # Telling

    def told(self, wanted: list[Venv], changed: bool, removed: list[str]) -> dict[str, Any]:
        """Write the result."""
        found = {}
        for venv in self.venvs:
            if venv.stamp:
                found[venv.spec.name] = {**self.recorded(venv), "packages": self.there(venv)}
        return {
            "changed": changed,
            "venvs": found,
            "removed": removed,
            "stale": [path for path in self.params["companions"] if os.path.lexists(path)],
            "diff": [self.difference(venv) for venv in wanted if venv.changed],
        }

    def there(self, venv: Venv) -> dict[str, str]:
        """Give what is installed, as its owner sees it."""
        build = Path(venv.stamp["build"])
        try:
            return acting(venv.placed().owner, lambda: packages_in(build))
        except Failed as error:
            self.module.warn(f"The environment {venv.spec.name!r} cannot be looked at: {error}")
            return {}

    def difference(self, venv: Venv) -> dict[str, str]:
        """Show what becomes of an environment."""
        before = listing(venv.before.get("packages", {}))
        shown = {"before_header": str(venv.path), "after_header": str(venv.path), "before": before}
        if venv.stamp:
            return {**shown, "after": listing(venv.stamp["packages"])}
        lines = lock_lines(venv.lock) or asked_lines(venv.spec, self.accelerator)
        after = "".join(f"{line}\n" for line in lines)
        return {**shown, "after": after, "after_header": f"{venv.path} (asked for)"}


def listing(packages: Mapping[str, str]) -> str:
    """Write packages for a diff."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["prepare", "build"], "default": "build"},
            "venvs": {"type": "list", "elements": "dict", "required": True, "options": VENV_SPEC},
            "default_python": {"type": "str", "default": "3.11"},
            "framework_versions": {"type": "dict", "default": {}},
            "locks": {"type": "dict", "default": {}},
            "unresolved": {"type": "dict", "default": {}},
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
    job = Job(module)
    if job.wrong:
        module.fail_json(msg=" ".join(job.wrong))
    result = job.prepare() if module.params["phase"] == "prepare" else job.build()
    module.exit_json(slice=module.params["slice"], **result)


if __name__ == "__main__":
    main()
