"""Decide what a virtual environment must hold. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from .frameworks import (
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
PIN = re.compile(
    r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;,*]+)\s*(?:$|;|#|--hash=)"
)
NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
# What a project says of itself; a change of it changes what an editable install needs.
PROJECT_FILES = ("pyproject.toml", "setup.cfg", "setup.py")
_HASH = re.compile(r"\s+--hash=sha256:[0-9a-f]{64}(?=\s|$)")
# What a line of a lock is without its hashes: one version, perhaps for some machines only.
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)(\s*;[^#\\]*)?")
_DIRECT = re.compile(r"(?:-e\s+|[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?\s+@\s+)(\S+)(?:\s*;.*)?")
_AWAY = re.compile(
    r"error sending request|failed to fetch|connection (?:error|refused|reset|aborted|broken)"
    r"|connecterror|timed? ?out|dns error|name resolution|network is unreachable|no route to host"
    r"|max retries exceeded|temporarily unavailable|could not connect|request failed after"
    r"|\b(?:status code |error |http )?(?:429|500|502|503|504) (?:too many|internal|bad gateway"
    r"|service|gateway)|incompleteread|error decoding response body|from versions: none",
    re.IGNORECASE,
)


# What a name server answers of a name that is not there, where waiting makes no difference; and
# where it has no answer for now.
_NO_NAME = re.compile(
    r"name or service not known|nodename nor servname|no address associated with hostname"
    r"|nxdomain|no such host",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(r"temporary failure in name resolution|could not resolve", re.IGNORECASE)


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
    # Whose rights it is built with. What was resolved for one owner is of no use to another.
    owner: str = "root"


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


def is_linked(spec: VenvSpec) -> bool:
    """Tell whether something is asked for that is linked with the library of its Python."""
    lines = [*requirement_lines(spec, "cpu"), *spec.requirements.splitlines()]
    return any(match and normal_name(match[1]) == "torch-xla" for match in map(NAME.match, lines))


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def wish(spec: VenvSpec, accelerator: str, *, torch_index: bool = True) -> str:
    """Name what is asked for; the same wish of the same owner has one name on every host."""
    asked = wish_of_all(spec, accelerator, torch_index=torch_index)
    return _hash({"owner": spec.owner, "asked": asked})


def wish_of_all(spec: VenvSpec, accelerator: str, *, torch_index: bool = True) -> str:
    """Name what is asked for, whoever asks: so version 0.1 named it."""
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
    """Read a lock: what it pins, with its hashes, without comments; one line for each package."""
    joined = re.sub(r"\\\n\s*", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [re.sub(r"\s+--hash=", " --hash=", line) for line in lines if line]


def without_hashes(line: str) -> str:
    """Give a line of a lock as what it asks for."""
    return _HASH.sub("", line).strip()


def is_direct(line: str) -> bool:
    """Tell whether a line names a place instead of a version: such a line has no hash."""
    return _PINNED.fullmatch(without_hashes(line)) is None


def has_hashes(lock: str) -> bool:
    """Tell whether a lock can be installed from: all its versions have hashes."""
    lines = lock_lines(lock)
    return bool(lines) and all(is_direct(line) or _HASH.search(line) for line in lines)


def versions(lock: str) -> list[str]:
    """List the versions that a lock pins, for one who resolves it anew."""
    return [without_hashes(line) for line in lock_lines(lock) if not is_direct(line)]


def strange_lines(lock: str, spec: VenvSpec) -> list[str]:
    """List what a lock must not hold that another host resolved.

    It may hold versions, and those places only that the environment itself asks for.
    """
    asked = [*spec.packages, spec.requirements, *spec.constraints]
    for item in spec.editable:
        asked += [item.folder, item.project]
    text = "\n".join(asked)
    found = []
    for line in lock_lines(lock):
        if not is_direct(line):
            continue
        match = _DIRECT.fullmatch(without_hashes(line))
        place = re.sub(r"#.*$", "", match[1]) if match else ""
        # A commit stands behind the place that was asked for.
        place = re.sub(r"@[^@/:]*$", "", re.sub(r"^file://", "", place))
        place = re.sub(r"\[[^\]]*\]$", "", place)
        if not place or not re.search(rf"(?<![\w/.-]){re.escape(place)}(?![\w/.-])", text):
            found.append(line)
    return found


def digest(wanted: str, lock: str) -> str:
    """Name the content of an environment: the wish, and the versions that were resolved for it."""
    return _hash({"wish": wanted, "lock": sorted(map(without_hashes, lock_lines(lock)))})


def freeze_hash(python_version: str, packages: Mapping[str, str]) -> str:
    """Name what is installed."""
    return _hash({"python": python_version, "packages": dict(packages)})


def split_torch(lock: str) -> tuple[list[str], list[str]]:
    """Part a lock into what comes from PyTorch's own index, and the rest."""
    first: list[str] = []
    rest: list[str] = []
    for line in lock_lines(lock):
        match = NAME.match(line)
        own = match is not None and normal_name(match[1]) in TORCH_FAMILY and not is_direct(line)
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


_NO_PACKAGE = re.compile(
    r"(?:Because|and) (\S+) was not found in the package registry"
    r"|there (?:is|are) no versions? of (\S+?)(?=[\s,]|$)"
)


def unknown_package(spec: VenvSpec, told: str) -> str:
    """Say which wish names a package or version that no index has; nothing if none is to blame."""
    unknown = {one or other for one, other in _NO_PACKAGE.findall(told)}
    for index, line in enumerate(spec.packages):
        match = NAME.match(line)
        if match and {match[1].lower(), line.replace(" ", "").lower()} & {
            name.lower() for name in unknown
        }:
            return (
                f"python_env_venvs (name: {spec.name}).packages[{index}] = {line!r}: no index has "
                "such a package. Correct its name and version, or name the index that has it in "
                "python_env_extra_index_urls. "
            )
    return ""


def is_away(told: str) -> bool:
    """Tell from what a tool said whether an index was away, so that another try may help."""
    return bool(_AWAY.search(told))


def is_no_name(told: str) -> bool:
    """Tell from what a tool said whether the index has a name that nobody knows."""
    return bool(_NO_NAME.search(told))


def tries_for(told: str, tries: int) -> int:
    """Say how often to ask: for a name without an answer once more, for one that is none never."""
    if is_no_name(told):
        return 1
    return min(2, tries) if _NO_ANSWER.search(told) else tries


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
