# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the fleet file where its variables are: in Ansible itself, so that no secret leaves it."""

from __future__ import annotations

import time
from typing import Any

from ansible.utils.display import Display

from ..module_utils._schema.keys import Problem
from ..modules.fleet_check import DOCUMENTATION
from ..plugin_utils._core import forks
from ..plugin_utils._core.refused import Refused
from ..plugin_utils._core.worker_facts import REMEDY, SETTING, facts_are_variables
from ..plugin_utils._fleet.check import check_variables
from ..plugin_utils._fleet.declared import Declared
from ..plugin_utils._roles.specs import role_options

display = Display()
# The first action of every playbook, which Ansible imports before it forks for the task.
role_options()
forks.load("ansible.builtin.flatten", "tpu.fleet.seconds")


class ActionModule(Declared):
    """The check of all variables that the play has."""

    _requires_connection = False

    def act(self) -> dict[str, Any]:
        """Check the variables, and report everything at once."""
        arguments = self.options(DOCUMENTATION)
        variables = arguments["variables"]
        given = self.vars if variables is None else variables
        facts = []
        if facts_are_variables():
            message = "must be off: a worker in other hands could set variables of the fleet"
            facts.append(Problem(SETTING, True, message, REMEDY))
        template, known = self._templar.template, arguments["known"]
        checked = check_variables(given, template, self._loader, known, tuple(facts))
        if checked.refusal:
            raise Refused(checked.refusal)
        for notice in checked.notices:
            display.warning(notice)
        told = {"digest": checked.digest, "in_buckets": checked.in_buckets}
        return {"changed": False, **told, "at": time.time()}
