#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_info
short_description: Get the runs and services of a worker
version_added: 0.1.0
description:
  - Reads what the run agents of a worker wrote down. For the playbooks of this collection; it may
    change.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  about:
    description:
      - V(runs) is each run that has begun.
      - V(standing) is the same in short, with the end of the log of each run that has ended, and
        the users of the worker. It fails if the worker is in use, or a run has not ended.
      - V(left) is what O(run) left on the worker.
      - V(services) is each notebook, board and dashboard.
      - V(address) is the address from which this computer comes, as sshd there sees it.
      - V(git_users) is each public key that the role P(tpu.fleet.git_access#role) made.
      - V(back) fails unless all runs of O(due) run, have succeeded, or wait for another run to
        leave the chips.
      - V(due) is the status of each run of O(due), once none of them is between two states.
    type: str
    choices: [runs, standing, left, services, address, back, due, git_users]
    required: true
  people:
    description:
      - With O(about=standing), whether a user who is logged in or holds a chip makes it fail.
    type: bool
    default: true
  due:
    description:
      - Names of the runs that should run; by default those that are declared and enabled for the
        worker.
    type: list
    elements: str
    default: []
  wait:
    description:
      - For how many seconds at most O(about=back) waits for the runs. It ends at once when all
        that are not back have failed, which waiting does not change.
    type: int
    default: 0
  seen:
    description:
      - With O(about=due), the runs that do not run, each with C(run), C(state) and C(reason), where
        M(tpu.fleet.apply) has just looked at the worker. The worker is not asked again.
    type: list
    elements: dict
  run:
    description: Name of the run, with O(about=left).
    type: str
    default: ''
  results:
    description: Paths of the results that the run declares.
    type: list
    elements: str
    default: []
  one_by_one:
    description:
      - Whether to name each file, also where the worker has rsync. By default, if this computer
        has no rsync.
    type: bool
  everything:
    description: Whether to name the run's checkpoints too, where they are on the machine's disk.
    type: bool
    default: false
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: There is no difference to show.
    support: none
"""

EXAMPLES = r"""
- name: Read the status of the runs
  tpu.fleet.run_info:
    about: runs
  register: seen

- name: Show it
  ansible.builtin.debug:
    msg: "{{ seen.answer }}"
"""

RETURN = r"""
answer:
  description:
    - What the worker says, checked. A worker may be in other hands; an answer that is not as it
      must be is an error.
  type: raw
  returned: success, unless O(about=back) or O(seen), or O(about=git_users) and there is none
text:
  description: The answer in a line.
  type: str
  returned: O(about=runs) or O(about=services)
lines:
  description: The runs that do not run and have not succeeded, with the reasons.
  type: list
  elements: str
  returned: O(about=due)
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError
from ..module_utils._host.run_left import left_by
from ..module_utils._host.run_states import FAILED
from ..module_utils._host.runs import RunFiles
from ..module_utils._host.services import SERVICES_DIR
from ..module_utils._host.standing import standing
from ..module_utils._host.state import STATE_DIR, read_text

LONGEST = 30.0
"""Seconds for which runs may be between two states."""


def settled(files: RunFiles, due: list[str]) -> list[dict[str, Any]]:
    """Return the status of each run, once none is between two states, or after some time."""
    deadline = time.monotonic() + LONGEST
    while any(files.is_between(run, time.time()) for run in due) and time.monotonic() < deadline:
        time.sleep(0.5)
    return [{"run": run, **files.told(run), "state": files.state_now(run)} for run in due]


def not_back(files: RunFiles, due: list[str], seconds: float) -> dict[str, str]:
    """Return the state of each run that is due; empty if all are back within so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        states = {run: files.state_now(run) for run in due}
        missing = [run for run in due if not files.is_back(run)]
        is_over = time.monotonic() >= deadline or all(states[run] == FAILED for run in missing)
        if not missing or is_over:
            return states if missing else {}
        time.sleep(1.0)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "about": {
                "type": "str",
                "choices": [
                    *("runs", "standing", "left", "services", "address", "back"),
                    *("due", "git_users"),
                ],
                "required": True,
            },
            "people": {"type": "bool", "default": True},
            "due": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "int", "default": 0},
            "seen": {"type": "list", "elements": "dict"},
            "run": {"type": "str", "default": ""},
            "results": {"type": "list", "elements": "str", "default": []},
            "one_by_one": {"type": "bool"},
            "everything": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    said: Any
    if params["about"] == "runs":
        said = RunFiles().begun()
    elif params["about"] == "standing":
        said = standing()
    elif params["about"] == "left":
        keys = ("run", "results", "one_by_one", "everything")
        try:
            said = left_by(*(params[key] for key in keys))
        except UserError as error:
            module.fail_json(msg=f"What {params['run']} left cannot be looked at: {error}")
    elif params["about"] == "address":
        module.exit_json(changed=False, answer=os.environ.get("SSH_CONNECTION", ""))
    elif params["about"] == "git_users":
        module.exit_json(changed=False, answer=read_text(Path(STATE_DIR, "git_access.json")) or "")
    elif params["about"] == "services":
        said = [json.loads(file.read_text()) for file in sorted(Path(SERVICES_DIR).glob("*.json"))]
    elif params["about"] == "due":
        said = settled(RunFiles(), params["due"])
    else:
        states = not_back(RunFiles(), params["due"], params["wait"])
        if states:
            module.fail_json(msg=", ".join(f"{run}: {state}" for run, state in states.items()))
        said = params["due"]
    module.exit_json(changed=False, answer=json.dumps(said))


if __name__ == "__main__":
    main()
