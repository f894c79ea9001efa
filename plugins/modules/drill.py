#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drill
short_description: Do harm to a run on its worker, and see whether it is back
version_added: 0.1.0
description:
  - Looks at a run of the role P(tpu.fleet.training_run#role), does one thing to it that happens to
    TPUs, and judges what became of it. The playbook C(tpu.fleet.drill) puts it together.
  - What lasts for a while, O(do=disk) and O(do=partition), undoes itself on the host by a time
    limit, also when nobody comes back for it.
  - With O(until) it looks again and again, from the controller; a worker that cannot be reached
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
  until:
    description:
      - V(settled) waits until the run goes its way, and has saved something.
      - V(back) waits until it does so again after O(drill), and judges it.
    type: str
    choices: [settled, back]
  drill:
    description: Which drill is waited for, and the name in RV(row).
    type: str
  before:
    description: The RV(look) right before it.
    type: dict
  began:
    description: When the wait began, as RV(at); without it, it begins now.
    type: float
  timeout:
    description: How many seconds to wait at most.
    type: int
    default: 900
  settle:
    description: How many seconds a program has to save something, for V(settled).
    type: int
    default: 60
  lost_steps:
    description:
      - How many steps may be lost. Without it, whatever is not all that was done since the attempt
        had begun.
    type: int
  known:
    description: Whether the inventory has the worker at this moment.
    type: bool
    default: true
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

- name: Wait until it is back
  tpu.fleet.drill:
    run: digits
    until: back
    drill: kill
    before: "{{ killed.look }}"
"""

RETURN = r"""
look:
  description: How the run was on this worker; right before, where something was done.
  returned: when the worker was reached
  type: dict
skip:
  description: Why nothing was done; empty when it was.
  returned: always
  type: str
at:
  description: The seconds since the controller's boot.
  returned: when run through its action
  type: float
ready:
  description: V(yes), V(wait) when one should look at the inventory again, or V(never).
  returned: with O(until)
  type: str
row:
  description: The verdict, when there is one.
  returned: with O(until)
  type: dict
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
    "until": {"type": "str", "choices": ["settled", "back"]},
    "drill": {"type": "str"},
    "before": {"type": "dict"},
    "began": {"type": "float"},
    "timeout": {"type": "int", "default": 900},
    "settle": {"type": "int", "default": 60},
    "lost_steps": {"type": "int"},
    "known": {"type": "bool", "default": True},
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
