# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring what a run left on a worker to this computer: with rsync, or file by file.

The worker reads it with the rights of the run's user, who could exchange it for a link meanwhile.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display

from ..module_utils._core.plain_text import shown
from ..module_utils._host.run_left import absent
from ..modules.collect import DOCUMENTATION
from ..plugin_utils._fleet.declared import Declared

RSYNC = (
    *("rsync", "--recursive", "--times", "--relative", "--partial", "--compress"),
    # A file with holes takes no more room here than there.
    "--sparse",
    # Links are left out, as they may lead anywhere; and that is not said of each at every time.
    *("--no-links", "--no-devices", "--no-specials", "--info=nonreg0"),
    *("--protect-args", "--out-format=%n"),
)
# 24: a file went while it was looked at, as the oldest of a log does.
FINE = (0, 24)
display = Display()


class ActionModule(Declared):
    """What is half there is gone on with; what is there already is not sent again."""

    _supports_check_mode = True

    def act(self) -> dict[str, Any]:
        """Bring what is new, and say where it is."""
        arguments = self.options(DOCUMENTATION)
        self.host = str(self.vars["inventory_hostname"])
        left, folder = arguments["left"], Path(arguments["folder"])
        result: dict[str, Any] = {"changed": False, "run": arguments["run"]}
        if left["left"] and not self._task.check_mode:
            if left["rsync"]:
                files = self._rsync(left, folder, arguments["ssh_config"])
            else:
                files = self._fetch(places(left["left"], folder, self.host), left["user"])
            result.update(changed=files > 0, files=files, folder=str(folder))
            result["missing"] = left["missing"]
            more = f"; not there: {', '.join(left['missing'])}" if left["missing"] else ""
            display.display(f"  {self.host}: {folder}{more}")
        hosts = self.vars["ansible_play_hosts"]
        # A run that is on no worker is reported once.
        problem = self._absent(arguments["run"], hosts) if self.host == hosts[0] else ""
        if problem:
            result.update(failed=True, msg=problem)
        return result

    def _absent(self, run: str, hosts: list[str]) -> str:
        """Judge what all workers have, as the tasks before registered it."""
        known = [self.vars["hostvars"].raw_get(host) for host in hosts]
        seen = [one["fleet_finish_seen"]["answer"] for one in known if "fleet_finish_seen" in one]
        ended = [of["state"] for one in seen for of in one["runs"] if of["run"] == run]
        answers = [one["fleet_collect_found"]["answer"] for one in known]
        problem = absent(run, answers, succeeded="succeeded" in ended)
        return f"{self.vars['tpu_vm_name']} is kept: {problem}" if ended and problem else problem

    def _rsync(self, told: dict[str, Any], folder: Path, ssh_config: str) -> int:
        """Bring what is new; return the number of files."""
        left: list[dict[str, str]] = told["left"]
        (folder / "results").mkdir(parents=True, exist_ok=True)
        brought = ""
        for part in dict.fromkeys(entry["to"] for entry in left):
            # What stands after /./ is kept of a path.
            sources = [
                f"{self.host}:{entry['base']}/./{entry['name']}"
                for entry in left
                if entry["to"] == part
            ]
            there = f"--rsync-path=sudo -n -u {shlex.quote(told['user'])} rsync"
            shell = f"--rsh=ssh -F {ssh_config} -o BatchMode=yes"
            done = subprocess.run(
                [*RSYNC, there, shell, "--", *sources, f"{folder}/{part}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            if done.returncode not in FINE:
                why = shown(done.stderr.strip() or done.returncode)
                raise AnsibleActionFail(f"{self.host}: rsync: {why}")
            brought += done.stdout
        return sum(not name.endswith("/") for name in brought.splitlines())

    def _fetch(self, wanted: list[tuple[str, Path]], user: str) -> int:
        """Bring each file that differs; return their number."""
        results = []
        if self._connection.become:
            self._connection.become.set_option("become_user", user)
        for source, dest in wanted:
            task = self._task.copy()
            # The oldest of a log goes while we work.
            more = {"flat": True, "fail_on_missing": False}
            task.args = {"src": source, "dest": str(dest), **more}
            fetch = self._shared_loader_obj.action_loader.get(
                "ansible.builtin.fetch",
                task=task,
                connection=self._connection,
                play_context=self._play_context,
                loader=self._loader,
                templar=self._templar,
                shared_loader_obj=self._shared_loader_obj,
            )
            results.append(fetch.run(task_vars=self.vars))
        failures = [shown(one.get("msg")) for one in results if one.get("failed")]
        if failures:
            raise AnsibleActionFail(f"{self.host}: {'; '.join(failures)}")
        return sum(bool(one.get("changed")) for one in results)


def places(left: list[dict[str, str]], folder: Path, worker: str) -> list[tuple[str, Path]]:
    """List source and destination of each file; refuse what is not inside of the folder."""
    real, found = folder.resolve(), []
    for entry in left:
        dest = folder / entry["to"] / entry["name"]
        # resolve follows links, also those in the middle.
        if real not in dest.resolve().parents or dest.is_symlink():
            raise AnsibleActionFail(
                f"{worker}: {shown(dest)} is not inside of {folder}: a link leads elsewhere. "
                "Remove the link, and collect again."
            )
        found.append((f"{entry['base']}/{entry['name']}", dest))
    return found
