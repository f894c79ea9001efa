# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check all variables of the fleet file in Ansible's own process, so that no secret leaves it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader

from ...module_utils._fleet_file.bucket_places import bucket_places
from ...module_utils._fleet_file.check import check_fleet_file, check_variable_names, role_keys
from ...module_utils._fleet_file.fleet import VARIABLES
from ...module_utils._fleet_file.notices import notices
from ...module_utils._schema.keys import UNREADABLE, Problem
from ...module_utils._schema.names import FLEET_NAMES, old_names
from .._roles.specs import ROLES, fleet_options
from . import local_folders, state_folder
from .options import Template
from .variable_files import empty_values, names_by_file

# What playbooks/vars/apply.yml gives to roles: not declared, and about workers still to come.
# Read by the lines that begin a variable: to parse the file takes as long as a process of a task.
TOLD = frozenset(
    re.findall(
        r"^(\w+):", (ROLES.parent / "playbooks/vars/apply.yml").read_text("utf-8"), re.MULTILINE
    )
)


# What playbooks take on the command line alone; in a file it would be a misspelling.
ON_COMMAND_LINE = frozenset({"fleet_run"})


@dataclass(frozen=True)
class Checked:
    """The result of a check."""

    problems: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()
    digest: str = ""
    """Identifies everything that the check depends on."""
    in_buckets: bool = False
    """Whether anything is in a bucket, of which the place has to be checked."""

    @property
    def refusal(self) -> str:
        """Return the text that refuses the fleet file; empty without problems."""
        if not self.problems:
            return ""
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        return f"The fleet file has {count}. Nothing was changed.\n{lines}"


def check_variables(
    given: Mapping[str, Any],
    template: Template,
    loader: DataLoader,
    known: str | None = None,
    also: tuple[Problem, ...] = (),
) -> Checked:
    """Return all problems of the variables that a play has, and of the files beside its inventory.

    Variables whose check found no problem before, under the digest `known`, are not checked again.
    `also` are problems that are known already.
    """
    files = names_by_file(loader, given.get("ansible_inventory_sources") or ())
    options = fleet_options()
    ours = [name for name in given if (name in options or name in VARIABLES) and name not in TOLD]
    data, problems, unreadable = _read({name: given[name] for name in ours}, files, template)
    for name in sorted(set(empty_values()) & set(data)):
        if data[name] is None:
            remedy = f"Write {name}: [], or leave it out"
            problems.append(Problem(name, None, "is neither filled nor empty", remedy))
    problems += also
    problems += local_folders.problems_of(data, str(given.get("inventory_dir") or ""))
    problems += state_folder.problems_of(given, template, note=False)
    roles = role_keys(options)
    names = {*files, *(given.keys() - ON_COMMAND_LINE)}
    misspelt = [
        *old_names(names, files.get),
        *check_variable_names(names - FLEET_NAMES.keys(), roles, files),
    ]
    digest = _digest(ours, data)
    if digest == known and not problems and not misspelt:
        return Checked(digest=digest, in_buckets=bool(bucket_places(data)))
    problems += check_fleet_file(data, roles, unreadable)
    problems += misspelt
    if problems:
        return Checked(tuple(problems))
    found = notices(data, datetime.now(timezone.utc))
    return Checked((), tuple(map(str, found)), digest, bool(bucket_places(data)))


def _read(
    given: Mapping[str, Any], files: Mapping[str, str], template: Template
) -> tuple[dict[str, Any], list[Problem], list[str]]:
    """Fill in what the values refer to; return the values, the problems, and their fields."""
    data: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name, value in given.items():
        try:
            data[name] = template(value)
        except AnsibleError:
            data[name] = _piecewise(name, value, wrong, template)
    # One file that does not exist is one problem, however many values name it.
    places: dict[str, list[str]] = {}
    for field, reason in wrong.items():
        places.setdefault(reason, []).append(field)
    problems = []
    for reason, (first, *others) in places.items():
        if reason:
            file = files.get(re.split(r"[.\[]", first)[0])
            also = f", and neither can {', '.join(others)}" if others else ""
            place = f" in {file}" if file else ""
            message = f"cannot be read{place}: {reason}{also}"
            problems.append(Problem(first, None, message, _remedy(reason)))
    return data, problems, list(wrong)


def readable(given: Mapping[str, Any], template: Template) -> dict[str, Any]:
    """Fill in what the values refer to, as far as it can be read here; all else is UNREADABLE."""
    return _read(given, {}, template)[0]


def _piecewise(field: str, value: Any, wrong: dict[str, str], template: Template) -> Any:
    """Fill in what can be filled in of a value; note why the rest cannot."""
    if isinstance(value, Mapping):
        return {
            key: _piecewise(f"{field}.{key}", item, wrong, template) for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _piecewise(f"{field}[{index}]", item, wrong, template)
            for index, item in enumerate(value)
        ]
    try:
        return template(value)
    except AnsibleError as error:
        # A value that only a worker has is checked there.
        told = "" if "tpu_vm_" in str(value) else str(error).strip().splitlines()[0]
        wrong[field] = told.partition(" Use -v")[0].rstrip(".")
        return UNREADABLE


def _remedy(reason: str) -> str:
    """Return the remedy for a template that cannot be filled in."""
    file = re.search(r"(?:access|find|locate) (?:the )?file[^']*'([^']+)'", reason)
    if file is None:
        return "Correct it, or leave it out"
    if file[1].startswith(("/", "~")):
        return "Make this file, or correct its name"
    return (
        "Begin it at the folder of the inventory. What lies beside this folder is "
        f"lookup('ansible.builtin.file', inventory_dir ~ '/../{file[1]}')"
    )


def _digest(names: list[str], data: Mapping[str, Any]) -> str:
    """Return the digest of everything that the check depends on."""
    text = json.dumps([sorted(names), data], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
