"""Decide what a virtual environment must hold. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ._frameworks import (
    FRAMEWORKS,
    TORCH_FAMILY,
    framework_lines,
    misfits,
    torch_range,
    version_key,
    wrong_libtpu,
)

# A change of it builds every environment anew.
RECIPE = 2
PIN = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;,*]+)\s*(?:$|;|#)")
NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
# What a project says of itself; a change of it changes what an editable install needs.
PROJECT_FILES = ("pyproject.toml", "setup.cfg", "setup.py")
_AWAY = re.compile(
    r"error sending request|failed to fetch|connection (?:error|refused|reset|aborted|broken)"
    r"|connecterror|timed? ?out|dns error|name resolution|network is unreachable|no route to host"
    r"|max retries exceeded|temporarily unavailable|could not connect|request failed after"
    r"|\b(?:status code |error |http )?(?:429|500|502|503|504) (?:too many|internal|bad gateway"
    r"|service|gateway)|incompleteread|error decoding response body|from versions: none",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Editable:
    """A project that is used where it lies."""

    folder: str
    extras: str = ""
    # The text of its PROJECT_FILES.
    project: str = ""

    def line(self) -> str:
        """Write it for a requirements file."""
        return f"-e {self.folder}{self.extras}"


@dataclass(frozen=True)
class VenvSpec:
    """What is wanted."""

    name: str
    path: str
    python: str
    framework: str = "none"
    framework_version: str = ""
    torch_version: str = ""
    packages: tuple[str, ...] = ()
    # The text of a requirements file on the host, and of the constraints.
    requirements: str = ""
    constraints: tuple[str, ...] = ()
    editable: tuple[Editable, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def framework_requirements(spec: VenvSpec, accelerator: str) -> list[str]:
    """Name the packages of the framework for what the host has."""
    version, torch = spec.framework_version, spec.torch_version
    return framework_lines(spec.framework, version, torch, accelerator)


def requirement_lines(spec: VenvSpec, accelerator: str) -> list[str]:
    """List everything that is asked for by name."""
    return [*framework_requirements(spec, accelerator), *spec.packages]


def asked_lines(spec: VenvSpec, accelerator: str) -> list[str]:
    """List what is asked for, as a requirements file; the one on the host goes besides."""
    return [*requirement_lines(spec, accelerator), *(item.line() for item in spec.editable)]


def torch_names(spec: VenvSpec, accelerator: str) -> list[str]:
    """List what is asked for that comes from PyTorch's own index."""
    lines = [*requirement_lines(spec, accelerator), *spec.requirements.splitlines()]
    named = {normal_name(match[1]) for match in map(NAME.match, lines) if match}
    for item in spec.editable:
        named.update(
            re.findall(r"[\"'\s](torch(?:vision|audio)?)(?=[\s\"'<>=!~\[;@])", item.project)
        )
    return [name for name in TORCH_FAMILY if name in named]


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def wish(spec: VenvSpec, accelerator: str, *, torch_index: bool = True) -> str:
    """Name what is asked for; the same wish has the same name on every host."""
    return _hash(
        {
            "recipe": RECIPE,
            "python": spec.python,
            "framework": spec.framework,
            "asked": asked_lines(spec, accelerator),
            "requirements": spec.requirements,
            "constraints": list(spec.constraints),
            "projects": [item.project for item in spec.editable],
            "environment": sorted(spec.environment),
            "torch_index": torch_index and bool(torch_names(spec, accelerator)),
        }
    )


def lock_lines(text: str) -> list[str]:
    """Read a lock: what it pins, without comments."""
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def digest(wanted: str, lock: str) -> str:
    """Name the content of an environment: the wish, and what was resolved for it."""
    return _hash({"wish": wanted, "lock": sorted(lock_lines(lock))})


def freeze_hash(python_version: str, packages: Mapping[str, str]) -> str:
    """Name what is installed."""
    return _hash({"python": python_version, "packages": dict(packages)})


def split_torch(lock: str) -> tuple[list[str], list[str]]:
    """Part a lock into what comes from PyTorch's own index, and the rest."""
    first: list[str] = []
    rest: list[str] = []
    for line in lock_lines(lock):
        match = NAME.match(line)
        own = match is not None and normal_name(match[1]) in TORCH_FAMILY and " @ " not in line
        (first if own else rest).append(line)
    return first, rest


def cuda_packages(lock: str) -> list[str]:
    """List what only a graphics card needs."""
    return [line for line in lock_lines(lock) if line.startswith(("nvidia-", "triton=="))]


def pyproject(names: Sequence[str], index: str) -> str:
    """Write the project file that tells uv which packages come from one index and nowhere else."""
    quoted = ", ".join(json.dumps(name) for name in names)
    sources = "".join(f'{name} = {{ index = "torch" }}\n' for name in names)
    return (
        f'[project]\nname = "tpu-fleet-asked"\nversion = "0"\ndependencies = [{quoted}]\n'
        f"[tool.uv.sources]\n{sources}"
        f'[[tool.uv.index]]\nname = "torch"\nurl = {json.dumps(index)}\nexplicit = true\n'
    )


def netrc_line(host: str, login: str, password: str) -> str:
    """Write a login for .netrc, whose readers take a backslash before what they would part at."""
    words = (re.sub(r'([\s"\\])', r"\\\1", word) for word in (host, login, password))
    return "machine {} login {} password {}\n".format(*words)


def build_path(spec: VenvSpec, content: str, serial: int = 1) -> str:
    """Say where the environment really is; its path is a link to it."""
    path = PurePosixPath(spec.path)
    again = f"-{serial}" if serial > 1 else ""
    return str(path.with_name(f".{path.name}-{content[:12]}{again}"))


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


def installed_packages(folder_names: Iterable[str]) -> dict[str, str]:
    """Read from the names of the folders in site-packages what is installed."""
    found = {}
    for entry in folder_names:
        match = re.fullmatch(r"([^-]+)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info", entry)
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
        if version_key(has) != version_key(version) or _tail(has) != _tail(version):
            wrong.append(f"{name} is {has} instead of {version}")
    least, most = torch_range(spec.framework, spec.framework_version)
    if least and not version_key(least) <= version_key(installed.get("torch", "")) <= version_key(
        most
    ):
        wrong.append(f"torch is {installed.get('torch', 'missing')} instead of {least} to {most}")
    libtpu = wrong_libtpu(spec.framework, spec.framework_version, installed)
    return [*wrong, *([libtpu] if libtpu else [])]


def _tail(version: str) -> str:
    """Give what follows the numbers of a version, without its local part."""
    return re.sub(r"^\d+(?:\.\d+)*", "", version.split("+")[0])


def problems(spec: VenvSpec) -> list[str]:
    """List what is wrong in the wish itself, before anything is built."""
    at = f"python_env_venvs: venv {spec.name!r}"
    found = []
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", spec.name):
        found.append(f"{at}: name may hold letters, digits, '.', '_' and '-' only.")
    path = PurePosixPath(spec.path)
    if not path.is_absolute() or ".." in path.parts or len(path.parts) < 3:
        found.append(f"{at}: path = {spec.path!r} is no whole path below a folder.")
    known_python = re.fullmatch(r"3\.\d+(\.\d+)?", spec.python)
    if not known_python:
        found.append(f"{at}: python = {spec.python!r} is no version like '3.11'.")
    if spec.framework not in FRAMEWORKS:
        found.append(f"{at}: framework = {spec.framework!r} is none of {', '.join(FRAMEWORKS)}.")
        return found
    if spec.framework != "none" and not re.fullmatch(r"\d[\w.+-]*", spec.framework_version):
        found.append(f"{at}: framework_version = {spec.framework_version!r} is no version.")
    elif known_python:
        pinned = pins([*spec.packages, *spec.requirements.splitlines()])
        for name in (line.strip() for line in spec.packages):
            if normal_name(name) == "libtpu-nightly":
                pinned["libtpu-nightly"] = ""
        found += [
            f"{at}: {misfit.key} = {misfit.value!r} {misfit.message}. {misfit.remedy}."
            for misfit in misfits(
                spec.framework, spec.framework_version, spec.python, spec.torch_version, pinned
            )
        ]
    return found


def is_away(told: str) -> bool:
    """Tell from what a tool said whether an index was away, so that another try may help."""
    return bool(_AWAY.search(told))


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """List in words how two sets of packages differ."""
    found = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is None:
            found.append(f"{name} {new} is not there")
        elif new is None:
            found.append(f"{name} {old} is additional")
        elif old != new:
            found.append(f"{name} is {old} instead of {new}")
    return found


def differences(workers: Sequence[Mapping[str, Any]]) -> list[str]:
    """List what workers have otherwise than the first that has the same environment.

    Each worker has a host (its name), a slice, and venvs: python_version and packages by name.
    """
    found = []
    models: dict[tuple[str, str], tuple[str, Mapping[str, Any]]] = {}
    for worker in workers:
        for name, venv in sorted(worker["venvs"].items()):
            host, model = models.setdefault((worker["slice"], name), (worker["host"], venv))
            told = changes(venv["packages"], model["packages"])
            if venv["python_version"] != model["python_version"]:
                told.insert(
                    0, f"Python is {venv['python_version']} instead of {model['python_version']}"
                )
            if told:
                found.append(
                    f"{worker['host']} has another environment {name!r} than {host}: "
                    + ", ".join(told)
                )
    return found
