# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the declared environments of a host, and those that exist. Private to tpu.fleet."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..._host.as_user import PATH, account_of, foreign, read_plain
from ..._host.state import STATE_DIR, as_json, read_text, write_atomically
from ..._host.work import Failed
from ..here import on_slice
from . import build as venv_build
from .build import Site, acting, builds_of, included, site_of, target_of
from .plan import PROJECT_FILES, Editable, VenvSpec, problems, wish

TREES = Path(STATE_DIR) / "code"
MOST_DEPTH = 9


@dataclass
class Venv:
    """One environment: its declaration and its present state."""

    spec: VenvSpec
    # The requirements file and its includes.
    files: dict[str, str]
    wish: str
    # None if its owner is not a user of this host.
    site: Site | None = None
    no_site: str = ""
    before: dict[str, Any] = field(default_factory=dict)
    # All recorded builds, the last used first.
    builds: list[dict[str, Any]] = field(default_factory=list)
    # The target of its link.
    link: str | None = None
    # The stamp of the present or the new build.
    stamp: dict[str, Any] = field(default_factory=dict)
    lock: str = ""
    # The lock of another worker, if it is not the same.
    theirs: str = ""
    # Whether it is only resolved now, and built when a submitted run needs it.
    waits: bool = False
    error: str = ""
    changed: bool = False
    removed: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """Return its path."""
        return Path(self.spec.path)

    @property
    def record(self) -> Path:
        """Return the path of its record."""
        return venv_build.RECORDS / f"{self.spec.name}.json"

    def placed(self) -> Site:
        """Return its site: its path, and who works there."""
        if self.site is None:
            raise Failed(self.no_site)
        return self.site

    def known_lock(self) -> str:
        """Return the lock of a build, or of an apply before, for this wish; empty without one."""
        for stamp in (*self.builds, resolved(self.spec.name)):
            if stamp.get("wish") == self.wish:
                return str(stamp.get("lock", ""))
        return ""

    def is_resolved(self) -> bool:
        """Return whether its lock is kept for the time when it is built."""
        return resolved(self.spec.name) == {"wish": self.wish, "lock": self.lock}


def resolved(name: str) -> dict[str, Any]:
    """Return wish and lock of an environment that is built on need; empty if it has none."""
    return dict(json.loads(read_text(resolution_of(name)) or "{}"))


def resolution_of(name: str) -> Path:
    """Return the path of the file that keeps the lock of an environment until it is needed."""
    return venv_build.RECORDS / "resolved" / f"{name}.json"


def keep_resolution(venv: Venv) -> None:
    """Keep the lock of an environment until a run needs that."""
    path = resolution_of(venv.spec.name)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomically(path, as_json({"wish": venv.wish, "lock": venv.lock}))


def reader_of(path: str) -> pwd.struct_passwd:
    """Return the account with which a path is read: the first user who can change the path."""
    part = foreign(path)
    if part is not None:
        try:
            found = pwd.getpwuid(os.lstat(part).st_uid)
        except (KeyError, OSError):
            found = None
        # Reads in a root-owned folder that all users can write run as the user nobody.
        if found is None or found.pw_uid == 0:
            found = account_of("nobody")
        if found is not None:
            return found
    return pwd.getpwuid(os.geteuid())


def read_requirements(path: str, depth: int = 0) -> dict[str, str]:
    """Return a requirements file and its includes: text by path, the file itself first."""
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
    """Return the project files of a folder as one text."""
    found = [read_plain(os.path.realpath(Path(folder, name))) or b"" for name in PROJECT_FILES]
    return b"".join(found).decode("utf-8", "surrogateescape")


def link_of(path: Path) -> dict[str, Any]:
    """Return where a link leads, or that something else is there."""
    return {"link": target_of(path), "other": path.exists() and not path.is_symlink()}


def joined(files: Mapping[str, str], path: str, depth: int = 0) -> str:
    """Return the text of a requirements file with its includes inserted."""
    text = files.get(path, "")
    if depth > MOST_DEPTH:
        return text
    for line in text.splitlines():
        inner = included(line)
        if inner:
            there = os.path.normpath(Path(path).parent / inner)
            text += f"# {inner}\n{joined(files, there, depth + 1)}"
    return text


def listing(packages: Mapping[str, str]) -> str:
    """Return packages as text for a diff."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))


class Reader:
    """Reads the declarations and the present state of environments."""

    def __init__(self, params: Mapping[str, Any], accelerator: str, check: bool) -> None:
        self.params = params
        self.accelerator = accelerator
        self.check = check
        self.wrong: list[str] = []

    def all_wanted(self) -> list[Venv]:
        """Return all environments that are declared for this host's slice."""
        venvs = [
            self.wanted(entry) for entry in on_slice(self.params["venvs"], self.params["slice"])
        ]
        if self.params["python_source"] == "conda" and not self.has(self.params["conda"]):
            for venv in venvs:
                self.need_no_conda(venv.spec)
        return venvs

    def has(self, program: str) -> bool:
        """Return whether this host has a program."""
        return shutil.which(program, path=PATH) is not None

    def need_no_conda(self, spec: VenvSpec) -> None:
        """Record a problem if the Python is missing and there is no conda to install it."""
        minor = ".".join(spec.python.split(".")[:2])
        folder = Path(self.params["python_dir"]) / f"conda-{spec.python}"
        if not self.has(f"python{minor}") and not folder.exists():
            self.wrong.append(
                f"fleet_venvs: venv {spec.name!r}: python = {spec.python!r} is not on this "
                "host, and fleet_python_source = 'conda' cannot provide it: fleet_conda ="
                f" {self.params['conda']!r} is not a program here. Let startup_script of the slice "
                "install it and set its whole path, or set fleet_python_source to uv."
            )

    def place(self, at: str, given: str) -> tuple[str, str]:
        """Return a declared path as its top, which may be a link, and the rest below it."""
        if given.startswith("/"):
            return given, ""
        tree, _slash, rest = given.partition("/")
        record = json.loads(read_text(TREES / f"{tree}.json") or "{}")
        if not record.get("declared", "path" in record):
            if not self.check:
                self.wrong.append(
                    f"{at} = {given!r} is not a whole path, and this host has no code tree "
                    f"{tree!r}. Declare it in fleet_code, which is applied earlier."
                )
            return "/nonexistent", given
        return str(record["path"]), rest

    def read(self, at: str, given: str, work: Callable[[str], Any]) -> tuple[str, Any]:
        """Return a path's real location, and what is read there with its owner's rights."""
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
        """Return the environment for a declaration."""
        at = f"fleet_venvs: venv {entry['name']!r}"
        files: dict[str, str] = {}
        text = ""
        if entry["requirements"]:
            source, found = self.read(
                f"{at}: requirements", entry["requirements"], read_requirements
            )
            files = found or {}
            if not files and not self.check and not self.wrong:
                given = entry["requirements"]
                path = Path(*self.place(at, given))
                self.wrong.append(
                    f"{at}: requirements = {given!r}: {path} is not a file on this host."
                )
            text = joined(files, source)
        editable = []
        for given in entry["editable"]:
            match = re.fullmatch(r"([^\[\]]+)(\[[^\[\]]*\])?", given.strip())
            if match is None:
                self.wrong.append(f"{at}: editable = {given!r} is not a folder.")
                continue
            folder, project = self.read(f"{at}: editable", match[1], read_project)
            if not project and not self.check and not self.wrong:
                path = Path(*self.place(at, match[1]))
                self.wrong.append(
                    f"{at}: editable = {given!r} is not a project: {path} has neither "
                    f"{' nor '.join(PROJECT_FILES)}."
                )
            editable.append(Editable(folder, match[2] or "", project or ""))
        spec = VenvSpec(
            name=entry["name"],
            path=entry["path"],
            python=entry["python"] or self.params["default_python"],
            framework=entry["framework"] or "none",
            framework_version=entry["framework_version"]
            or str(self.params.get(f"{entry['framework']}_version") or ""),
            torch_version=entry["torch_version"] or "",
            packages=tuple(entry["packages"]),
            requirements=text,
            constraints=tuple(entry["constraints"]),
            editable=tuple(editable),
            environment=tuple((str(k), str(v)) for k, v in sorted(entry["build_env"].items())),
            owner=entry["user"],
        )
        wrong = problems(spec)
        self.wrong += wrong
        if wrong:
            return Venv(spec, files, "")
        has_torch = bool(self.params["torch_index_url"])
        venv = Venv(spec, files, wish(spec, self.accelerator, torch_index=has_torch))
        try:
            venv.site = site_of(venv.path, spec.owner, create=not self.check)
            there = acting(venv.site.keeper, lambda: link_of(venv.path))
        except Failed as error:
            venv.no_site, there = str(error), {}
        venv.link = there.get("link")
        if there.get("other"):
            self.wrong.append(
                f"{at}: {venv.path} exists and was not created by tpu.fleet. Move it away "
                "or declare another path."
            )
        venv.before = json.loads(read_text(venv.record) or "{}")
        is_needed = spec.name in self.params["needed"]
        venv.waits = entry["on_need"] and not (venv.before or is_needed)
        if is_needed and not venv.before and resolved(spec.name).get("wish") != venv.wish:
            # Each worker would resolve it by itself, and perhaps to something else.
            venv.error = (
                "The code from which it is made has changed since the last apply. Apply again: "
                "tpu-fleet apply --only venvs."
            )
        venv.builds = builds_of(spec.path)
        return venv
