# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module run_info, and take nothing from the worker but its answer."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils._core.plain_text import shown
from ..module_utils._core.worker_words import READERS
from ..module_utils._host.run_states import ENDED_OR_STOPPED, FAILED, REFUSED
from ..module_utils._host.runs import BACK
from ..plugin_utils._core.worker_facts import read_answer
from ..plugin_utils._fleet.declared import Declared


def line_of(run: Mapping[str, Any], slice_name: str) -> str:
    """Return a line about a run that does not run; empty for one that does or has succeeded."""
    if run["state"] in BACK:
        return ""
    again = f"tpu-fleet retry {run['run']} --slice {slice_name}"
    parts = [f"{run['run']} ({slice_name}): {run['state']}"]
    parts += [run["reason"]] if run.get("reason") else []
    parts += [f"to try it again: {again}"] if run["state"] == FAILED else []
    return "; ".join(parts)


class ActionModule(Declared):
    """The module; Ansible would print what a worker in other hands puts beside the answer."""

    def declared(self) -> dict[str, Any]:
        """Return how this computer brings files, and the runs that are declared for the worker."""
        options: dict[str, Any] = {"one_by_one": shutil.which("rsync") is None}
        if self._task.args.get("about") in ("back", "due"):
            runs = self.said(runs="fleet_runs").get("runs", [])
            here = [run for run in runs if self.vars["tpu_vm_name"] in run.get("slices", [])]
            options["due"] = [run["name"] for run in here if run.get("enabled", True)]
        return options

    def act(self) -> dict[str, Any]:
        """Run the module, and check what the worker says."""
        about = str(self._task.args.get("about"))
        if about == "due" and self._task.args.get("seen") is not None:
            due = self._task.args["due"]
            return self._lines([run for run in self._task.args["seen"] if run["run"] in due])
        said = super().act()
        answer = said.get("answer")
        if said.get("failed") or not isinstance(answer, str):
            return {"failed": True, "msg": shown(said.get("msg") or "it said nothing")}
        # A machine without keys has not written any down.
        if about not in (*READERS, "due") or (about == "git_users" and not answer):
            return {"changed": False}
        host = str(self.vars.get("inventory_hostname", "the worker"))
        found = read_answer(answer, "runs" if about == "due" else about, host)
        if about == "standing":
            runs = [run["run"] for run in found["runs"] if run["state"] not in ENDED_OR_STOPPED]
            people = found["used"] if boolean(self._task.args.get("people", True)) else []
            needed = [*people, *(f"run {run} has not ended" for run in runs)]
            if needed:
                name = self.vars.get("tpu_vm_name", "The worker")
                return {"failed": True, "msg": f"{name} is kept: {'; '.join(needed)}."}
        told: dict[str, Any] = {"changed": False, "answer": found}
        if about == "runs":
            line = "{run}: {state}, attempt {attempt}, log {log_path}"
            why = {REFUSED: " ({reason})"}
            texts = ((line + why.get(run["state"], "")).format_map(run) for run in found)
            told["text"] = "; ".join(texts) or "no run"
        elif about == "due":
            told.update(self._lines(found))
        elif about == "services":
            told["text"] = ", ".join(one["name"] for one in found) or "nothing"
        return told

    def _lines(self, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the lines about the runs of this worker that do not run."""
        name = str(self.vars.get("tpu_vm_name", "the worker"))
        lines = [line for run in runs if (line := line_of(run, name))]
        return {"changed": False, "lines": lines}
