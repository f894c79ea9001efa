# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the notebooks of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._host.state import VENVS_OF_ROLES
from ..._schema.keys import Problem, entries, text_of, texts_of
from ..._schema.refs import absolute, known, own_venv
from ..service_rules import check_service_entries
from ..whose import VENVS, check_code_of

# With this the path of a kernel's socket, /run/tpu-fleet/notebook-NAME/kernel-UUID-ipc-1, has the
# 107 characters that Linux accepts.
_LONGEST_NAME = 33

# Names of packages that are, or that depend on, ipykernel.
_BRINGS_IPYKERNEL = re.compile(r"ipykernel|ipyparallel|jupyter|notebook|kernel|nbclassic", re.I)
# A line that says nothing about which packages it installs: an option, a path, an address.
_UNKNOWN = re.compile(r"^-|/|://|{[{%]")


def check_notebook_server(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared notebooks."""
    problems = check_service_entries(data, "fleet_notebooks") + own_venv(data, "notebook_server")
    for field, entry in entries(data, "fleet_notebooks"):
        problems += absolute(field, entry, "path")
        name = text_of(entry, "name")
        if name and len(name) > _LONGEST_NAME:
            message = f"is longer than {_LONGEST_NAME} characters"
            remedy = "Use a shorter name, because it is part of the paths of Jupyter's sockets"
            problems.append(Problem(f"{field}.name", name, message, remedy))
        for index, kernel in texts_of(entry, "kernels"):
            place = f"{field}.kernels[{index}]"
            if not kernel.startswith("/"):
                problems += known(data, place, kernel, "venv", VENVS)
                problems += _without_ipykernel(data, place, kernel)
            problems += check_code_of(data, place, text_of(entry, "user"), kernel, VENVS)
        if entry.get("token") == "secret" and not entry.get("secrets"):
            message = "needs a set of secrets with JUPYTER_TOKEN"
            remedy = f"Name it in {field}.secrets, or let the host generate a token"
            problems.append(Problem(f"{field}.token", "secret", message, remedy))
    return problems


def _without_ipykernel(data: Mapping[str, Any], place: str, kernel: str) -> list[Problem]:
    """Report a venv whose declaration shows that no notebook can use it as a kernel.

    Packages of a requirements file, of a project or of a role's own venv are not known here.
    """
    for field, venv in entries(data, "fleet_venvs"):
        if text_of(venv, "name") != kernel or venv.get("requirements") or venv.get("editable"):
            continue
        if (text_of(venv, "path") or "").startswith(VENVS_OF_ROLES):
            continue
        packages = [line for _index, line in texts_of(venv, "packages")]
        if len(packages) != len(venv.get("packages") or ()):
            continue
        if any(_BRINGS_IPYKERNEL.search(line) or _UNKNOWN.search(line) for line in packages):
            continue
        message = "has no ipykernel, without which a notebook cannot use it"
        return [Problem(place, kernel, message, f"Add ipykernel to {field}.packages")]
    return []
