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
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._fleet import VARIABLES, notices
from ..module_utils._fleet_file import check_fleet_file, check_variable_names, role_keys
from ..module_utils._fleet_schema import Problem
from ..plugin_utils.role_specs import role_names, role_options

display = Display()


class ActionModule(ActionBase):
    """The check of all variables that the play has."""

    _requires_connection = False

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
        mine = re.compile(f"({'|'.join(['fleet', *role_names()])})_")
        # Not what we ourselves gave back.
        names = [name for name in given if mine.match(name) and name != "fleet_checked"]
        options = role_options()
        data, problems = self._read({n: given[n] for n in names if n in options or n in VARIABLES})
        digest = _digest(names, data)
        if digest == arguments["known"] and not problems:
            result.update(changed=False, problems=[], digest=digest, at=time.time())
            return result
        roles = role_keys(options)
        problems += check_fleet_file(data, roles)
        problems += check_variable_names(names, roles)
        result.update(changed=False, problems=[vars(problem) for problem in problems])
        if problems:
            count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            lines = "\n".join(f"  {problem}" for problem in problems)
            result.update(failed=True, msg=f"The fleet file has {count}:\n{lines}")
            return result
        result.update(digest=digest, at=time.time())
        for notice in notices(data, datetime.now(timezone.utc)):
            display.warning(notice)
        return result

    def _read(self, given: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        """Fill in what the values refer to."""
        data, problems = {}, []
        for name, value in given.items():
            try:
                data[name] = self._templar.template(value)
            except AnsibleError as error:
                # What only a worker has is looked at there.
                if "tpu_vm_" in str(value):
                    continue
                first = str(error).strip().splitlines()[0].rstrip(".")
                message = f"cannot be read: {first}"
                problems.append(Problem(name, None, message, "Correct it, or leave it out"))
        return data, problems


def _digest(names: list[str], data: Mapping[str, Any]) -> str:
    """Name everything that the check depends on."""
    text = json.dumps([sorted(names), data], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
