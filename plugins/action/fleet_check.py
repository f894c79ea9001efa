# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the fleet file where its variables are: in Ansible itself, so that no secret leaves it."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._fleet_file.check import check_fleet_file, check_variable_names, role_keys
from ..module_utils._fleet_file.fleet import VARIABLES
from ..module_utils._fleet_file.notices import notices
from ..module_utils._schema.keys import UNREADABLE, Problem
from ..plugin_utils import local_folders, state_folder
from ..plugin_utils.refused import Refused, once
from ..plugin_utils.role_specs import ROLES, role_options
from ..plugin_utils.variable_files import empty_values, names_by_file
from ..plugin_utils.worker_facts import REMEDY, SETTING, facts_are_variables

display = Display()
# What playbooks/vars/apply.yml tells roles: not declared, and of workers that are yet to come.
TOLD = frozenset(yaml_load((ROLES.parent / "playbooks/vars/apply.yml").read_text("utf-8")))


class ActionModule(ActionBase):
    """The check of all variables that the play has."""

    _requires_connection = False

    @once
    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Collect the variables, check them, and report everything at once."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _found, arguments = self.validate_argument_spec(
            {"variables": {"type": "dict"}, "known": {"type": "str"}}
        )
        variables = arguments["variables"]
        given = task_vars or {} if variables is None else variables
        # Those of slices, too, of which some are yet to come.
        sources = given.get("ansible_inventory_sources") or ()
        files = names_by_file(self._loader, sources)
        options = role_options()
        ours = [
            name for name in given if (name in options or name in VARIABLES) and name not in TOLD
        ]
        data, problems, unreadable = self._read({name: given[name] for name in ours}, files)
        for name in sorted(set(empty_values()) & set(data)):
            if data[name] is None:
                remedy = f"Write {name}: [], or leave it out"
                problems.append(Problem(name, None, "is neither filled nor empty", remedy))
        if facts_are_variables():
            message = "must be off: a worker in other hands could set variables of the fleet"
            problems.append(Problem(SETTING, True, message, REMEDY))
        problems += local_folders.problems_of(data, str(given.get("inventory_dir") or ""))
        problems += state_folder.problems_of(given, self._templar.template, note=False)
        roles = role_keys(options)
        misspelt = check_variable_names({*given, *files}, roles, files)
        digest = _digest(ours, data)
        if digest == arguments["known"] and not problems and not misspelt:
            result.update(changed=False, digest=digest, at=time.time())
            return result
        problems += check_fleet_file(data, roles, unreadable)
        problems += misspelt
        if problems:
            count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            lines = "\n".join(f"  {problem}" for problem in problems)
            raise Refused(f"The fleet file has {count}. Nothing was changed.\n{lines}")
        result.update(changed=False, digest=digest, at=time.time())
        for notice in notices(data, datetime.now(timezone.utc)):
            display.warning(str(notice))
        return result

    def _read(
        self, given: dict[str, Any], files: Mapping[str, str]
    ) -> tuple[dict[str, Any], list[Problem], list[str]]:
        """Fill in what the values refer to; give the values, what is wrong, and where."""
        data: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        for name, value in given.items():
            try:
                data[name] = self._templar.template(value)
            except AnsibleError:
                data[name] = self._piecewise(name, value, wrong)
        # One file that is not there is one problem, however often it is asked for.
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

    def _piecewise(self, field: str, value: Any, wrong: dict[str, str]) -> Any:
        """Fill in what can be filled in of a value; note why the rest cannot."""
        if isinstance(value, Mapping):
            return {
                key: self._piecewise(f"{field}.{key}", item, wrong) for key, item in value.items()
            }
        if isinstance(value, list):
            return [
                self._piecewise(f"{field}[{index}]", item, wrong)
                for index, item in enumerate(value)
            ]
        try:
            return self._templar.template(value)
        except AnsibleError as error:
            # What only a worker has is looked at there.
            told = "" if "tpu_vm_" in str(value) else str(error).strip().splitlines()[0]
            wrong[field] = told.partition(" Use -v")[0].rstrip(".")
            return UNREADABLE


def _remedy(reason: str) -> str:
    """Say what mends a template that cannot be filled in."""
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
    """Name everything that the check depends on."""
    text = json.dumps([sorted(names), data], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
