#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drill
short_description: Inject a fault into a run, and wait for its recovery
version_added: 0.1.0
description:
  - Looks at a run of the role P(tpu.fleet.training_run#role), does one thing to it that happens to
    TPUs, and judges what became of it. The playbook C(tpu.fleet.drill) puts it together.
  - What lasts for a while, O(do=disk) and O(do=partition), ends on the host after a time limit,
    even if the controller does not return.
  - With O(step) it looks again and again, from the controller; a worker that cannot be reached
    meanwhile is waited for.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  run:
    description: The run.
    type: str
    required: true
  do:
    description:
      - What to do on this worker.
      - V(look) does nothing. V(kill) and V(agent) send signal 9 to the program and to the agent
        that looks after it. V(reboot) shuts the machine down and starts it again.
      - V(disk) fills the disk of the checkpoint folder. V(partition) drops all packets from and to
        the other workers of the slice.
    type: str
    choices: [look, kill, agent, reboot, disk, partition]
    default: look
  seconds:
    description: How long V(disk) and V(partition) last.
    type: int
    default: 60
  known:
    description: Whether the inventory has the worker at this moment.
    type: bool
    default: true
  step:
    description:
      - One of the steps of O(plan), done as a whole. It waits until the run goes its way, does the
        drill on the worker or by the API, waits until the run is back, and writes the report.
    type: dict
  plan:
    description: What M(tpu.fleet.drill_plan) returned, with O(step).
    type: dict
  went:
    description:
      - What this module returned at the time before, with O(step). If RV(ready) was V(wait), the
        wait goes on; else its RV(rows) are in the report.
    type: dict
attributes:
  check_mode:
    description: Looks, and does nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Kill the program
  tpu.fleet.drill:
    run: digits
    do: kill
  register: killed

- name: Do it, and wait until the run is back
  tpu.fleet.drill:
    run: digits
    plan: "{{ fleet_drill_plan }}"
    step: "{{ fleet_drill_plan.steps[0] }}"
"""

RETURN = r"""
look:
  description: How the run was on this worker; right before, where something was done.
  returned: without O(step), or when RV(ready) is V(wait)
  type: dict
skip:
  description: Why nothing was done; empty when it was.
  returned: without O(step)
  type: str
at:
  description: When the wait began, in seconds since the controller's boot.
  returned: when RV(ready) is V(wait)
  type: float
ready:
  description: V(yes), V(wait) when one should look at the inventory again, or V(never).
  returned: with O(step)
  type: str
rows:
  description: The verdicts of this step and those before.
  returned: with O(step)
  type: list
  elements: dict
lines:
  description: The report as a table, and where it is written.
  returned: with O(step), unless RV(ready) is V(wait)
  type: list
  elements: str
bad:
  description: The drills that the run did not survive.
  returned: with O(step), unless RV(ready) is V(wait)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._roles.training_run.drill_host import CannotDo, harm, look

ARGUMENT_SPEC = {
    "run": {"type": "str", "required": True},
    "do": {
        "type": "str",
        "choices": ["look", "kill", "agent", "reboot", "disk", "partition"],
        "default": "look",
    },
    "seconds": {"type": "int", "default": 60},
    "known": {"type": "bool", "default": True},
    "plan": {"type": "dict"},
    "step": {"type": "dict"},
    "went": {"type": "dict"},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    run, do = module.params["run"], module.params["do"]
    if do == "look" or module.check_mode:
        module.exit_json(changed=do != "look", look=look(run), skip="")
    try:
        module.exit_json(changed=True, look=harm(do, run, module.params["seconds"]), skip="")
    except CannotDo as trouble:
        module.exit_json(changed=False, look=look(run), skip=str(trouble))


if __name__ == "__main__":
    main()
