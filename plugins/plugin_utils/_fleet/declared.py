# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run modules with what the variables of the play declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase

from ...module_utils._ansible.options import spec_of
from ...module_utils._tpu.names import GROUP_USABLE
from .._core.refused import once
from .options import said_of


class Declared(ActionBase):
    """An action that takes from the variables what its task does not say."""

    @once
    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Fill in what was not given, and run the module."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.vars = task_vars or {}
        self._task.args = {**self.declared(), **self._task.args}
        result.update(self.act())
        if not self._task.diff:
            # With --diff, Ansible shows it also where the task says diff: false.
            result.pop("diff", None)
        return result

    def declared(self) -> dict[str, Any]:
        """Return the options that the variables say."""
        return {}

    def act(self) -> dict[str, Any]:
        """Run the module; return its result."""
        return self.module(str(self._task.action), self._task.args)

    def module(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Run any module."""
        answer: dict[str, Any] = self._execute_module(
            module_name=name, module_args=options, task_vars=self.vars
        )
        return answer

    def options(self, documentation: str) -> dict[str, Any]:
        """Return the options of the task, which have to be as a module documents them."""
        options: dict[str, Any] = self.validate_argument_spec(spec_of(documentation))[1]
        return options

    def said(self, *options: str, **others: str) -> dict[str, Any]:
        """Return what the variables fleet_<option> say, and others."""
        return said_of(self.vars, self._templar.template, options, **others)

    def workers(self) -> dict[str, Mapping[str, Any]]:
        """Return what is known of each worker, as it is written."""
        hosts = self.vars["groups"].get(GROUP_USABLE, [])
        return {host: self.vars["hostvars"].raw_get(host) for host in hosts}


def together(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make one result of those of several modules."""
    failures = [str(one.get("msg")) for one in results if one.get("failed")]
    return {
        "changed": any(one.get("changed") for one in results),
        "diff": [one["diff"] for one in results if one.get("changed") and one.get("diff")],
        "warnings": [text for one in results for text in one.pop("warnings", None) or []],
        **({"failed": True, "msg": " ".join(failures)} if failures else {}),
    }
