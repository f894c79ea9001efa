"""Decide what a virtual environment must contain. No I/O. Private to tpu.fleet."""

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

# Changing it rebuilds every environment.
RECIPE = 2
PIN = re.compile(
    r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;,*]+)\s*(?:$|;|#|--hash=)"
)
NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
# A change of these files changes what an editable install needs.
PROJECT_FILES = ("pyproject.toml", "setup.cfg", "setup.py")
_HASH = re.compile(r"\s+--hash=sha256:[0-9a-f]{64}(?=\s|$)")
# A line of a lock without its hashes: one version, perhaps only for some machines.
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)(\s*;[^#\\]*)?")
_DIRECT = re.compile(r"(?:-e\s+|[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?\s+@\s+)(\S+)(?:\s*;.*)?")
_COMMIT = re.compile(r"(?P<place>\S+ @ git\+\S+)@(?P<commit>[0-9a-f]{40})(?P<rest>(?:[#\s].*)?)")
_AWAY = re.compile(
    r"error sending request|failed to fetch|connection (?:error|refused|reset|aborted|broken)"
    r"|connecterror|timed? ?out|dns error|name resolution|network is unreachable|no route to host"
    r"|max retries exceeded|temporarily unavailable|could not connect|request failed after"
    r"|\b(?:status code |error |http )?(?:429|500|502|503|504) (?:too many|internal|bad gateway"
    r"|service|gateway)|incompleteread|error decoding response body|from versions: none",
    re.IGNORECASE,
)


# Answers of a name server for a name that does not exist, for which retries are useless; and for
# a name that it cannot resolve now.
_NO_NAME = re.compile(
    r"name or service not known|nodename nor servname|no address associated with hostname"
    r"|nxdomain|no such host",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(r"temporary failure in name resolution|could not resolve", re.IGNORECASE)


@dataclass(frozen=True)
class Editable:
    """A project that is installed from its folder."""

    folder: str
    extras: str = ""
    # The text of its PROJECT_FILES.
    project: str = ""

    def line(self) -> str:
        """Return its line for a requirements file."""
        return f"-e {self.folder}{self.extras}"


@dataclass(frozen=True)
class VenvSpec:
    """A declared environment."""

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
    # The user who builds it. Locks of one owner are not used for another.
    owner: str = "root"


def framework_requirements(spec: VenvSpec, accelerator: str) -> list[str]:
    """Return the packages of the framework for this accelerator."""
    version, torch = spec.framework_version, spec.torch_version
    return framework_lines(spec.framework, version, torch, accelerator)


def requirement_lines(spec: VenvSpec, accelerator: str) -> list[str]:
    """Return all requirements that are declared by name."""
    return [*framework_requirements(spec, accelerator), *spec.packages]


def asked_lines(spec: VenvSpec, accelerator: str) -> list[str]:
    """Return the declared requirements; a requirements file on the host is passed separately."""
    return [*requirement_lines(spec, accelerator), *(item.line() for item in spec.editable)]


def torch_names(spec: VenvSpec, accelerator: str) -> list[str]:
    """Return the requirements that come from PyTorch's own index."""
    lines = [*requirement_lines(spec, accelerator), *spec.requirements.splitlines()]
    named = {normal_name(match[1]) for match in map(NAME.match, lines) if match}
    for item in spec.editable:
        named.update(
            re.findall(r"[\"'\s](torch(?:vision|audio)?)(?=[\s\"'<>=!~\[;@])", item.project)
        )
    return [name for name in TORCH_FAMILY if name in named]


def is_linked(spec: VenvSpec) -> bool:
    """Return whether a requirement is linked with the library of its Python."""
    lines = [*requirement_lines(spec, "cpu"), *spec.requirements.splitlines()]
    return any(match and normal_name(match[1]) == "torch-xla" for match in map(NAME.match, lines))


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def wish(spec: VenvSpec, accelerator: str, *, torch_index: bool = True) -> str:
    """Return a hash of the declaration, equal on every host for the same owner."""
    asked = _hash(
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
    return _hash({"owner": spec.owner, "asked": asked})


def lock_lines(text: str) -> list[str]:
    """Return the lines of a lock without comments: a version with hashes for each package."""
    joined = re.sub(r"\\\n\s*", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [re.sub(r"\s+--hash=", " --hash=", line) for line in lines if line]


def without_hashes(line: str) -> str:
    """Return a line of a lock without its hashes."""
    return _HASH.sub("", line).strip()


def is_direct(line: str) -> bool:
    """Return whether a line has a URL instead of a version: such a line has no hash."""
    return _PINNED.fullmatch(without_hashes(line)) is None


def has_hashes(lock: str) -> bool:
    """Return whether a lock can be installed from: all its versions have hashes."""
    lines = lock_lines(lock)
    return bool(lines) and all(is_direct(line) or _HASH.search(line) for line in lines)


def versions(lock: str) -> list[str]:
    """Return the versions that a lock pins, as constraints for a new resolution."""
    return [without_hashes(line) for line in lock_lines(lock) if not is_direct(line)]


def names(lock: str) -> dict[str, str]:
    """Return the lines of a lock by the normal names of their packages; those of folders too."""
    found = {}
    for line in lock_lines(lock):
        match = NAME.match(line)
        found[normal_name(match[1]) if match else line] = line
    return found


def same_versions(one: str, other: str) -> bool:
    """Return whether two locks pin the same, whatever their hashes are."""
    lines = [sorted(map(without_hashes, lock_lines(lock))) for lock in (one, other)]
    return lines[0] == lines[1]


def exchanged(own: str, other: str) -> list[str]:
    """Return the versions of which two locks know no file in common."""
    theirs = names(other)
    return sorted(
        without_hashes(line)
        for name, line in names(own).items()
        if name in theirs
        and without_hashes(line) == without_hashes(theirs[name])
        and _HASH.search(line)
        and _HASH.search(theirs[name])
        and not {*_HASH.findall(line)} & {*_HASH.findall(theirs[name])}
    )


def with_commits(own: str, other: str, spec: VenvSpec) -> str:
    """Return a lock with the commits of another one, where only a branch or a tag is declared."""
    theirs, found = names(other), []
    text = "\n".join([*spec.packages, spec.requirements, *spec.constraints])
    for name, line in names(own).items():
        mine, its = _COMMIT.fullmatch(line), _COMMIT.fullmatch(theirs.get(name, ""))
        same = mine and its and (mine["place"], mine["rest"]) == (its["place"], its["rest"])
        found.append(theirs[name] if same and mine and mine["commit"] not in text else line)
    return "".join(f"{line}\n" for line in found)


def strange_lines(lock: str, spec: VenvSpec) -> list[str]:
    """Return the lines that the lock of another host must not contain.

    It may contain versions, and only those URLs that the environment itself declares.
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
        # A commit is appended to the declared URL.
        place = re.sub(r"@[^@/:]*$", "", re.sub(r"^file://", "", place))
        place = re.sub(r"\[[^\]]*\]$", "", place)
        if not place or not re.search(rf"(?<![\w/.-]){re.escape(place)}(?![\w/.-])", text):
            found.append(line)
    return found


def digest(wanted: str, lock: str) -> str:
    """Return a hash of an environment's content: the wish and the lock."""
    return _hash({"wish": wanted, "lock": sorted(map(without_hashes, lock_lines(lock)))})


def freeze_hash(python_version: str, packages: Mapping[str, str]) -> str:
    """Return a hash of the installed packages."""
    return _hash({"python": python_version, "packages": dict(packages)})


def split_torch(lock: str) -> tuple[list[str], list[str]]:
    """Return the lines of a lock that come from PyTorch's own index, and the others."""
    first: list[str] = []
    rest: list[str] = []
    for line in lock_lines(lock):
        match = NAME.match(line)
        own = match is not None and normal_name(match[1]) in TORCH_FAMILY and not is_direct(line)
        (first if own else rest).append(line)
    return first, rest


def cuda_packages(lock: str) -> list[str]:
    """Return the packages that only a graphics card needs."""
    return [line for line in lock_lines(lock) if line.startswith(("nvidia-", "triton=="))]


def pyproject(names: Sequence[str], index: str) -> str:
    """Return the project file that makes uv get these packages only from one index."""
    quoted = ", ".join(json.dumps(name) for name in names)
    sources = "".join(f'{name} = {{ index = "torch" }}\n' for name in names)
    return (
        f'[project]\nname = "tpu-fleet-asked"\nversion = "0"\ndependencies = [{quoted}]\n'
        f"[tool.uv.sources]\n{sources}"
        f'[[tool.uv.index]]\nname = "torch"\nurl = {json.dumps(index)}\nexplicit = true\n'
    )


def netrc_line(host: str, login: str, password: str) -> str:
    """Return a login for .netrc, whose readers need a backslash before special characters."""
    words = (re.sub(r'([\s"\\])', r"\\\1", word) for word in (host, login, password))
    return "machine {} login {} password {}\n".format(*words)


def build_path(spec: VenvSpec, content: str, serial: int = 1) -> str:
    """Return the path of a build; the environment's path is a link to it."""
    path = PurePosixPath(spec.path)
    again = f"-{serial}" if serial > 1 else ""
    return str(path.with_name(f".{path.name}-{content[:12]}{again}"))


def normal_name(name: str) -> str:
    """Return a distribution's name in the normal form of indexes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: Iterable[str]) -> dict[str, str]:
    """Return the requirements that name exactly one version."""
    found = {}
    for line in lines:
        match = PIN.match(line)
        if match:
            found[normal_name(match[1])] = match[2]
    return found


def installed_packages(folder_names: Iterable[str]) -> dict[str, str]:
    """Return the installed packages, from the names of folders in site-packages."""
    found = {}
    for entry in folder_names:
        match = re.fullmatch(r"([^-]+)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info", entry)
        if match:
            found[normal_name(match[1])] = match[2]
    return found


def unmet(
    spec: VenvSpec, accelerator: str, python_version: str, installed: Mapping[str, str]
) -> list[str]:
    """Return how the installed packages differ from the declaration."""
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
    """Return what follows the numbers of a version, without its local part."""
    return re.sub(r"^\d+(?:\.\d+)*", "", version.split("+")[0])


def problems(spec: VenvSpec) -> list[str]:
    """Return the problems of a declaration, before anything is built."""
    at = f"fleet_venvs: venv {spec.name!r}"
    found = []
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", spec.name):
        found.append(f"{at}: name may have only letters, digits, '.', '_' and '-'.")
    path = PurePosixPath(spec.path)
    if not path.is_absolute() or ".." in path.parts or len(path.parts) < 3:
        found.append(f"{at}: path = {spec.path!r} is not a whole path below a folder.")
    known_python = re.fullmatch(r"3\.\d+(\.\d+)?", spec.python)
    if not known_python:
        found.append(f"{at}: python = {spec.python!r} is not a version like '3.12'.")
    if spec.framework not in FRAMEWORKS:
        found.append(f"{at}: framework = {spec.framework!r} is not one of {', '.join(FRAMEWORKS)}.")
        return found
    if spec.framework != "none" and not re.fullmatch(r"\d[\w.+-]*", spec.framework_version):
        found.append(f"{at}: framework_version = {spec.framework_version!r} is not a version.")
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
    """Return a message about a package or version that no index has; empty if none is."""
    unknown = {one or other for one, other in _NO_PACKAGE.findall(told)}
    for index, line in enumerate(spec.packages):
        match = NAME.match(line)
        if match and {match[1].lower(), line.replace(" ", "").lower()} & {
            name.lower() for name in unknown
        }:
            return (
                f"fleet_venvs (name: {spec.name}).packages[{index}] = {line!r}: no index has "
                "such a package. Correct its name and version, or name the index that has it in "
                "fleet_extra_index_urls. "
            )
    return ""


def is_away(told: str) -> bool:
    """Return whether a tool's output means that an index was away, so a retry may help."""
    return bool(_AWAY.search(told))


def lacks_version(told: str) -> bool:
    """Return whether uv's output means that an index does not have a version."""
    return "there is no version of" in told


def must_be_built(told: str) -> bool:
    """Return whether uv's output means that a package to install has no wheel."""
    return "has no usable wheels" in told or "building from source is disabled" in told


def is_no_name(told: str) -> bool:
    """Return whether a tool's output means that the name of an index does not exist."""
    return bool(_NO_NAME.search(told))


def tries_for(told: str, tries: int) -> int:
    """Return how often to try: once more without an answer, not at all for an unknown name."""
    if is_no_name(told):
        return 1
    return min(2, tries) if _NO_ANSWER.search(told) else tries


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return in words how two sets of packages differ."""
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
    """Return how workers differ from the first one that has the same environment.

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
