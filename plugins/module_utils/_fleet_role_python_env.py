# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the venvs of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ._fleet_refs import absolute, known, known_user
from ._fleet_schema import Problem, duplicates, entries, text_of, texts_of
from ._frameworks import DEFAULT_PYTHON, DEFAULT_VERSIONS, FRAMEWORKS, misfits
from ._venvs import pins

_PYTHON = re.compile(r"3\.\d+(\.\d+)?")
_VERSION = re.compile(r"\d[\w.+-]*")


def check_python_env(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the venvs."""
    problems = duplicates(data, "python_env_venvs", "name", "Give each venv a name of its own")
    problems += duplicates(data, "python_env_venvs", "path", "Give each venv its own folder")
    begins: dict[str, str] = {}
    for field, entry in entries(data, "python_env_venvs"):
        problems += absolute(field, entry, "path")
        problems += known_user(data, field, entry, "owner")
        for index, wanted in texts_of(entry, "slices"):
            problems += known(data, f"{field}.slices[{index}]", wanted, "slice", "fleet_slices")
        problems += _check_trees(data, field, entry)
        problems += _check_versions(data, field, entry)
        name = text_of(entry, "name") or ""
        for index, user in texts_of(entry, "activate_for"):
            at = f"{field}.activate_for[{index}]"
            # Venvs of different slices never meet.
            if not entry.get("slices") and begins.setdefault(user, name) != name:
                message = f"begins in venv {begins[user]!r} already"
                problems.append(Problem(at, user, message, "Name each user once"))
    return problems + _check_indexes(data)


def _check_trees(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Check what is taken from code trees."""
    given = [(f"{field}.editable[{index}]", text) for index, text in texts_of(entry, "editable")]
    requirements = text_of(entry, "requirements")
    if requirements:
        given.append((f"{field}.requirements", requirements))
    problems = []
    for at, text in given:
        if not text.startswith("/"):
            tree = re.split(r"[/\[]", text)[0]
            problems += known(data, at, tree, "tree", "code_checkout_trees")
    return problems


def _check_versions(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Check that Python, framework and packages go together."""
    framework = text_of(entry, "framework") or "none"
    python = str(entry.get("python") or data.get("python_env_default_python") or DEFAULT_PYTHON)
    if not _PYTHON.fullmatch(python):
        remedy = "Write it like '3.12', in quotation marks"
        return [Problem(f"{field}.python", python, "is no version of Python", remedy)]
    if framework not in FRAMEWORKS:
        return []
    given = entry.get("framework_version") or data.get(f"python_env_{framework}_version")
    version = str(given or DEFAULT_VERSIONS.get(framework, ""))
    if framework != "none" and not _VERSION.fullmatch(version):
        remedy = f"Write it like {DEFAULT_VERSIONS[framework]}"
        return [Problem(f"{field}.framework_version", version, "is no version", remedy)]
    pinned = pins(text for _index, text in texts_of(entry, "packages"))
    torch = str(entry.get("torch_version") or "")
    return [
        Problem(f"{field}.{misfit.key}", misfit.value, misfit.message, misfit.remedy)
        for misfit in misfits(framework, version, python, torch, pinned)
    ]


def _check_indexes(data: Mapping[str, Any]) -> list[Problem]:
    """Check that no secret is where everybody reads it. The values are not shown."""
    problems = []
    given = [
        (name, data.get(name)) for name in ("python_env_index_url", "python_env_torch_index_url")
    ]
    extra = data.get("python_env_extra_index_urls")
    if isinstance(extra, list):
        given += [(f"python_env_extra_index_urls[{i}]", url) for i, url in enumerate(extra)]
    for field, url in given:
        if isinstance(url, str) and re.search(r"//[^/]*@", url):
            remedy = "Give host, username and password in python_env_index_credentials"
            problems.append(Problem(field, None, "holds a login", remedy))
    secrets = data.get("python_env_secret_environment")
    for key, value in secrets.items() if isinstance(secrets, dict) else ():
        # Ansible hides a secret wherever it stands; a short one would take half of the text along.
        if len(str(value)) < 8:
            field = f"python_env_secret_environment.{key}"
            remedy = "Give it in python_env_environment, if it is no secret"
            problems.append(Problem(field, None, "has less than eight characters", remedy))
    shared = data.get("python_env_shared_cache")
    pattern = r"none|slice|http://[A-Za-z0-9.-]+:\d+"
    if isinstance(shared, str) and not re.fullmatch(pattern, shared):
        remedy = "Use none, slice, or an address like http://10.0.0.2:880"
        message = "is no shared cache"
        problems.append(Problem("python_env_shared_cache", shared, message, remedy))
    return problems
