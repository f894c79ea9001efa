# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the venvs of the fleet file. No I/O."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from ..._schema.keys import UNREADABLE, Problem, duplicates, entries, text_of, texts_of
from ..._schema.refs import absolute, at_least, in_its_slice, known, known_slices, known_user
from ..whose import TREES, check_code_of
from .frameworks import (
    DEFAULT_PYTHON,
    DEFAULT_VERSIONS,
    FRAMEWORKS,
    PYTHONS,
    minor_of,
    misfits,
)
from .plan import pins

_PYTHON = re.compile(r"3\.\d+(\.\d+)?")
_VERSION = re.compile(r"\d[\w.+-]*")
_NAME_VENVS = ("fleet_runs", "fleet_notebooks", "fleet_boards")
_LEAST = {"fleet_build_tries": 1, "fleet_parallel_builds": 1, "fleet_keep_builds": 0}


def check_python_env(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared venvs."""
    problems = duplicates(data, "fleet_venvs", "name", "Give each venv a different name")
    problems += duplicates(data, "fleet_venvs", "path", "Give each venv its own folder")
    begins: dict[str, str] = {}
    for field, entry in entries(data, "fleet_venvs"):
        problems += absolute(field, entry, "path")
        problems += known_user(data, field, entry, "user")
        problems += known_slices(data, field, entry)
        problems += _check_trees(data, field, entry)
        problems += _check_need(data, field, entry)
        problems += _check_versions(data, field, entry)
        name = text_of(entry, "name") or ""
        owner = text_of(entry, "user") or "root"
        for index, user in texts_of(entry, "activate_for"):
            at = f"{field}.activate_for[{index}]"
            if owner not in ("root", user):
                message = f"would run code at login that {owner}, the owner of the venv, can change"
                remedy = f"Name {owner} only, or let root own the venv"
                problems.append(Problem(at, user, message, remedy))
            # Venvs of different slices never meet.
            if not entry.get("slices") and begins.setdefault(user, name) != name:
                message = f"begins in venv {begins[user]!r} already"
                problems.append(Problem(at, user, message, "Name each user once"))
    problems += _check_conda(data) + _check_indexes(data)
    return problems + at_least(data, _LEAST) + in_its_slice(data, "python_env")


def _check_need(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a venv that is built when a submitted run needs it."""
    if entry.get("on_need") is not True:
        return []
    at, told = f"{field}.on_need", []
    if not data.get("fleet_queue"):
        told.append(("is for submitted runs, and there is no fleet_queue", "Declare it"))
    if data.get("fleet_apply") == "push":
        message = "needs machines that apply roles to themselves, and fleet_apply is push"
        told.append((message, "Set fleet_apply to auto"))
    for where in _named_at(data, text_of(entry, "name") or ""):
        told.append((f"comes too late for {where}", "Name another venv there"))
    return [Problem(at, True, message, f"{remedy}, or leave it out") for message, remedy in told]


def _named_at(data: Mapping[str, Any], name: str) -> list[str]:
    """Return the fields that name a venv which has to be there after an apply."""
    found = [
        (f"{field}.venv", entry.get("venv"))
        for variable in _NAME_VENVS
        for field, entry in entries(data, variable)
    ]
    kernels = [
        (f"{field}.kernels[{index}]", kernel)
        for field, entry in entries(data, "fleet_notebooks")
        for index, kernel in texts_of(entry, "kernels")
    ]
    found += [*kernels, ("fleet_ray_venv", data.get("fleet_ray_venv"))]
    return [field for field, venv in found if venv == name]


def _check_conda(data: Mapping[str, Any]) -> list[Problem]:
    """Return a problem if conda is the source of Python and no conda is set."""
    field, source = "fleet_python_source", data.get("fleet_python_source")
    if source != "conda" or data.get("fleet_conda"):
        return []
    message = "needs a conda that is on the machines, which no role installs"
    remedy = (
        "Install one in startup_script of the slices and set fleet_conda to it, like "
        "/opt/conda/bin/conda, or set uv"
    )
    return [Problem(field, source, message, remedy)]


def _check_trees(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of paths in code trees."""
    given = [(f"{field}.editable[{index}]", text) for index, text in texts_of(entry, "editable")]
    requirements = text_of(entry, "requirements")
    if requirements:
        given.append((f"{field}.requirements", requirements))
    problems = []
    for at, text in given:
        tree = re.split(r"[/\[]", text)[0]
        if not text.startswith("/"):
            problems += known(data, at, tree, "tree", TREES)
        # The user of the environment runs what is installed into it from there.
        path = re.sub(r"\[[^\]]*\]$", "", text)
        named = path if text.startswith("/") else tree
        problems += check_code_of(data, at, text_of(entry, "user") or "root", named, TREES)
    return problems


def _version_of(data: Mapping[str, Any], framework: str) -> Any:
    """Return the version of a framework where an environment says none."""
    return data.get(f"fleet_{framework}_version") if framework in DEFAULT_VERSIONS else None


def _check_versions(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of Python, framework and packages that do not fit together."""
    framework = text_of(entry, "framework") or "none"
    told = (
        *(entry.get(key) for key in ("python", "framework", "framework_version", "torch_version")),
        *(data.get("fleet_python"), _version_of(data, framework)),
    )
    if UNREADABLE in told:
        return []
    python = str(entry.get("python") or data.get("fleet_python") or DEFAULT_PYTHON)
    if not _PYTHON.fullmatch(python):
        remedy = "Write it like '3.12', in quotation marks"
        return [Problem(f"{field}.python", python, "is not a version of Python", remedy)]
    if data.get("fleet_python_source") == "deadsnakes" and python.count(".") > 1:
        remedy = "Write it like '3.12': deadsnakes has one version of each"
        return [Problem(f"{field}.python", python, "is not available from deadsnakes", remedy)]
    least, most = PYTHONS
    # A user's own list may have any version; and other checks report values that are no version.
    own = data.get("fleet_python_list") or not isinstance(entry.get("python"), str)
    if not own and not least <= minor_of(python) <= most:
        remedy = f"Use 3.{least} to 3.{most}"
        return [Problem(f"{field}.python", python, "is not an available Python", remedy)]
    if framework not in FRAMEWORKS:
        return []
    given = entry.get("framework_version") or _version_of(data, framework)
    version = str(given or DEFAULT_VERSIONS.get(framework, ""))
    if framework != "none" and not _VERSION.fullmatch(version):
        remedy = f"Write it like {DEFAULT_VERSIONS[framework]}"
        return [Problem(f"{field}.framework_version", version, "is not a version", remedy)]
    pinned = pins(text for _index, text in texts_of(entry, "packages"))
    torch = str(entry.get("torch_version") or "")
    return [
        Problem(f"{field}.{misfit.key}", misfit.value, misfit.message, misfit.remedy)
        for misfit in misfits(framework, version, python, torch, pinned)
    ]


def _check_indexes(data: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each secret that all users could read. The values are not shown."""
    problems = []
    given = [(name, data.get(name)) for name in ("fleet_index_url", "fleet_torch_index_url")]
    extra = data.get("fleet_extra_index_urls")
    if isinstance(extra, list):
        given += [(f"fleet_extra_index_urls[{i}]", url) for i, url in enumerate(extra)]
    for field, url in given:
        if isinstance(url, str) and re.search(r"//[^/]*@", url):
            remedy = "Set host, username and password in fleet_index_credentials"
            problems.append(Problem(field, None, "has a login", remedy))
    secrets = data.get("fleet_build_secret_env")
    for key, value in secrets.items() if isinstance(secrets, dict) else ():
        # Ansible censors a secret wherever it occurs; a short one would censor half of the output.
        if len(str(value)) < 8:
            field = f"fleet_build_secret_env.{key}"
            remedy = "Set it in fleet_build_env, if it is not a secret"
            problems.append(Problem(field, None, "has less than eight characters", remedy))
    shared = data.get("fleet_shared_cache")
    pattern = r"slice|http://[A-Za-z0-9.-]+:\d+"
    if isinstance(shared, str) and not re.fullmatch(pattern, shared):
        remedy = "Use null, slice, or an address like http://10.0.0.2:880"
        message = "is not a shared cache"
        problems.append(Problem("fleet_shared_cache", shared, message, remedy))
    return [*problems, *_check_clients(data, shared)]


def _check_clients(data: Mapping[str, Any], shared: Any) -> list[Problem]:
    """Return the problems of the cache's clients; a cache for several slices needs them set."""
    field, problems = "fleet_shared_cache_clients", []
    clients = data.get(field) or []
    for index, text in enumerate(clients if isinstance(clients, list) else ()):
        try:
            ipaddress.ip_network(text if isinstance(text, str) else "")
        except ValueError:
            remedy = "Use an address or a network, like 10.128.0.0/9"
            problems.append(Problem(f"{field}[{index}]", text, "is not a network", remedy))
    if isinstance(shared, str) and shared.startswith("http://") and not clients:
        message = "names no worker that the cache at fleet_shared_cache may answer"
        remedy = "Set the network of the slices, like 10.128.0.0/9 for Google's default one"
        problems.append(Problem(field, clients, message, remedy))
    return problems
