#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apply
short_description: Have machines apply roles to themselves
version_added: 0.1.0
description:
  - Sends every machine of the play its declared state, over one connection and with one command,
    and collects the results. A machine that is as declared answers immediately.
  - The others run C(ansible-playbook) themselves, with the same roles and their own variables, in
    an environment that they keep. They continue when the connection is lost, and the next call
    returns the result.
  - Variables with lookups, C(hostvars) or C(groups) are evaluated here. All others are evaluated on
    the machine.
  - Where O(by), O(timeout) and O(every) are not given, they come from C(fleet_apply),
    C(fleet_connection_timeout) and C(fleet_apply_every) of the play.
  - Runs once for all machines of the play. It does not fail for single machines; give RV(failures)
    to M(tpu.fleet.apply_verdict).
author:
  - The tpu.fleet authors (@tpu-fleet)
requirements:
  - asyncssh
options:
  roles:
    description: Names of roles of this collection, in the order in which they are applied.
    type: list
    elements: str
    required: true
  by:
    description:
      - What applies the roles. V(host) is each machine itself. V(push) asks no machine and
        returns all of them as RV(pushed), for a play that includes the roles.
      - V(auto) is V(host). It returns as RV(pushed) the machines that cannot have ansible-core, and
        those that are not reached by SSH.
    type: str
    choices: [auto, host, push]
    default: auto
  timeout:
    description:
      - Seconds for which machines that cannot be reached are tried again. They are tried once at
        least.
    type: float
    default: 0
  forced:
    description: Apply all roles, also where nothing seems to be different.
    type: bool
    default: false
  every:
    description:
      - How often each machine checks and repairs its own state, as a systemd time span, for
        example V(1h). Empty for never.
    type: str
    default: ""
  connects:
    description: How many connections may be on their way to being opened at once.
    type: int
    default: 64
  publishes:
    description: Whether to return what the workers of each slice agreed on.
    type: bool
    default: false
  git_keys:
    description: Whether to return the public keys that the role git_access made on the machines.
    type: bool
    default: false
attributes:
  check_mode:
    description: The machines look what they would change, and change nothing of what roles manage.
    support: full
  diff_mode:
    description: The machines send their differences.
    support: full
"""

EXAMPLES = r"""
- name: Apply the roles on every machine
  tpu.fleet.apply:
    roles: [host_base, user_accounts]
  run_once: true
  register: applied

- name: Fail for the machines that are not as declared
  tpu.fleet.apply_verdict:
    failures: "{{ applied.failures }}"
"""

RETURN = r"""
hosts:
  description: How it went on each machine, with status, counts, reasons, problem and seconds.
  type: dict
  returned: always
shared:
  description:
    - What the workers of each slice agreed on, as versions of code and packages, by the name of the
      slice. Of those that were asked.
  type: dict
  returned: always; empty unless O(publishes) is true
git_keys:
  description: Host, slice, and public keys by user, of the machines that have such keys.
  type: list
  elements: dict
  returned: always; empty unless O(git_keys) is true
pushed:
  description: The machines to which the controller has to apply the roles.
  type: list
  elements: str
  returned: always
unfinished:
  description:
    - Those of RV(pushed) and RV(failures). Where all have failed to, one more that is well, because
      Ansible ends a playbook when all hosts of a play have failed.
  type: list
  elements: str
  returned: always
idle_runs:
  description:
    - The declared runs that do not run and have not succeeded, each with its state and the reason,
      by the first machine of each slice on which nothing was applied.
  type: dict
  returned: always
runs_unknown:
  description:
    - The first machines of the other slices. Runs there may be about to start, stop or fail.
  type: list
  elements: str
  returned: always
failures:
  description: The same as RV(hosts), of those that are not as declared.
  type: dict
  returned: always
"""
