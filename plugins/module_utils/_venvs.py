"""Decide what a virtual environment must hold. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

# A change of it builds every environment anew.
RECIPE = 1
PIN = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;,*]+)\s*(?:$|;|#)")


@dataclass(frozen=True)
class VenvSpec:
    """What is wanted."""

    name: str
    path: str
    python: str
    framework: str = "none"
    framework_version: str = ""
    packages: tuple[str, ...] = ()
    # The text of a requirements file on the host, and of the constraints.
    requirements: str = ""
    constraints: tuple[str, ...] = ()


def framework_requirements(spec: VenvSpec, accelerator: str) -> list[str]:
    """Name the packages of the framework for what the host has."""
    if spec.framework == "none":
        return []
    extra = "[tpu]" if accelerator == "tpu" else ""
    return [f"{spec.framework}{extra}=={spec.framework_version}"]


def requirement_lines(spec: VenvSpec, accelerator: str) -> list[str]:
    """List everything that is asked for by name."""
    return [*framework_requirements(spec, accelerator), *spec.packages]


def digest(spec: VenvSpec, accelerator: str) -> str:
    """Name the content of an environment; the same wish has the same name on every host."""
    content = {
        "recipe": RECIPE,
        "python": spec.python,
        "asked": requirement_lines(spec, accelerator),
        "requirements": spec.requirements,
        "constraints": list(spec.constraints),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def build_path(spec: VenvSpec, content: str) -> str:
    """Say where the environment really is; its path is a link to it."""
    path = PurePosixPath(spec.path)
    return str(path.with_name(f".{path.name}-{content[:12]}"))


def normal_name(name: str) -> str:
    """Write a distribution's name in the one way that indexes use."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: Iterable[str]) -> dict[str, str]:
    """Find what is asked for in exactly one version."""
    found = {}
    for line in lines:
        match = PIN.match(line)
        if match:
            found[normal_name(match[1])] = match[2]
    return found


def unmet(
    spec: VenvSpec, accelerator: str, python_version: str, installed: Mapping[str, str]
) -> list[str]:
    """List what was installed otherwise than asked for."""
    wrong = []
    if python_version != spec.python and not python_version.startswith(f"{spec.python}."):
        wrong.append(f"Python is {python_version} instead of {spec.python}")
    for name, version in pins(requirement_lines(spec, accelerator)).items():
        has = installed.get(name, "missing")
        if has.split("+")[0] != version.split("+")[0]:
            wrong.append(f"{name} is {has} instead of {version}")
    return wrong


def problems(spec: VenvSpec) -> list[str]:
    """List what is wrong in the wish itself."""
    at = f"python_env_venvs: venv {spec.name!r}"
    found = []
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", spec.name):
        found.append(f"{at}: name may hold letters, digits, '.', '_' and '-' only.")
    path = PurePosixPath(spec.path)
    if not path.is_absolute() or ".." in path.parts or len(path.parts) < 3:
        found.append(f"{at}: path = {spec.path!r} is no whole path below a folder.")
    if not re.fullmatch(r"3\.\d+(\.\d+)?", spec.python):
        found.append(f"{at}: python = {spec.python!r} is no version like '3.11'.")
    if spec.framework != "none" and not re.fullmatch(r"\d[\w.+-]*", spec.framework_version):
        found.append(f"{at}: framework_version = {spec.framework_version!r} is no version.")
    return found
