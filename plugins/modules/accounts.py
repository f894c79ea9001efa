#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: accounts
short_description: Manage users and groups of a host
version_added: 0.1.0
description:
  - Makes users, groups, authorized keys and sudo rules as declared, all in one step.
  - Everything is checked against the host before the first change. A number that belongs to
    another user, a missing shell or a sudo rule that sudo refuses ends the module with nothing
    changed.
  - Declared keys live in a file of their own, C(~/.ssh/authorized_keys2), and are exactly the
    declared ones. What people and the cloud's guest agent keep in C(authorized_keys) is left alone.
  - There are no passwords. An account that was managed and is no longer declared is locked;
    O(users[].state=absent) removes it.
  - An account with running processes is neither removed nor renumbered, and no process is ended
    for that.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  users:
    description: The users.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name to log in with., type: str, required: true}
      uid: {description: Number of the user; the same on every host., type: int, required: true}
      gid: {description: Number of the user's own group. The uid by default., type: int}
      home: {description: Home folder. Below C(/home) by default., type: path}
      shell: {description: Login shell., type: path, default: /bin/bash}
      groups: {description: Further groups., type: list, elements: str, default: []}
      keys: {description: 'Public keys, each one line.', type: list, elements: str, default: []}
      sudo:
        description: V(none), V(all), or a list of commands that need no password.
        type: raw
        default: none
      state:
        description: Whether the user exists.
        type: str
        choices: [present, absent]
        default: present
      slices:
        description: Slices that the user may use. All of them by default.
        type: list
        elements: str
        default: []
      unassigned:
        description: What becomes of the account on a slice that is not among them.
        type: str
        choices: [lock, remove]
        default: lock
      home_mode:
        description:
          - Permissions of the home folder, such as V(0755). By default others cannot enter it
            (V(0750)), and a home that its user has closed further stays so.
        type: str
      home_on_removal:
        description: What becomes of the home folder of a user who goes.
        type: str
        choices: [keep, archive, delete]
        default: keep
  groups:
    description: Further groups.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the group., type: str, required: true}
      gid: {description: Number of the group., type: int, required: true}
  slice:
    description: Slice of this host.
    type: str
    default: ''
  archive_dir:
    description: Folder of the archived homes. Only root can read what is in it.
    type: path
    default: /var/lib/tpu-fleet/archive
  coming_shells:
    description: Shells that check mode takes as installed, because a task before would do it.
    type: list
    elements: path
    default: []
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Lists the steps.
    support: full
"""

EXAMPLES = r"""
- name: Make the users
  tpu.fleet.accounts:
    users:
      - name: alice
        uid: 2001
        keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampl alice"]
        sudo: all
"""

RETURN = r"""
steps:
  description: What was done, in order.
  type: list
  elements: str
  returned: always
notes:
  description: What is not wrong, but worth a look, and stays so; they are warnings too.
  type: list
  elements: str
  returned: always
ssh_problems:
  description: Why declared users do not get in through the SSH server of this host.
  type: list
  elements: str
  returned: always
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.work import Failed
from ..module_utils._roles.user_accounts.act import carry_out
from ..module_utils._roles.user_accounts.look import look, ssh_problems, write_record
from ..module_utils._roles.user_accounts.plan import (
    PRESENT,
    User,
    declared_problems,
    dropped,
    host_problems,
    passing_warnings,
    plan,
    record_of,
    sudoers_content,
    warnings,
)

USER_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "gid": {"type": "int"},
    "slices": {"type": "list", "elements": "str", "default": []},
    "unassigned": {"type": "str", "choices": ["lock", "remove"], "default": "lock"},
    "home": {"type": "path"},
    "shell": {"type": "path", "default": "/bin/bash"},
    "groups": {"type": "list", "elements": "str", "default": []},
    "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "sudo": {"type": "raw", "default": "none"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "home_mode": {"type": "str"},
    "home_on_removal": {
        "type": "str",
        "choices": ["keep", "archive", "delete"],
        "default": "keep",
    },
}
GROUP_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "gid": {"type": "int", "required": True},
}
SPEC: dict[str, Any] = {
    "users": {"type": "list", "elements": "dict", "default": [], "options": USER_SPEC},
    "groups": {"type": "list", "elements": "dict", "default": [], "options": GROUP_SPEC},
    "slice": {"type": "str", "default": ""},
    "archive_dir": {"type": "path", "default": "/var/lib/tpu-fleet/archive"},
    "coming_shells": {"type": "list", "elements": "path", "default": []},
}


def sudo_problems(module: AnsibleModule, users: list[User]) -> list[str]:
    """Ask visudo about every rule."""
    visudo = module.get_bin_path("visudo", opt_dirs=["/usr/sbin", "/sbin"])
    found = []
    for index, user in enumerate(users):
        content = sudoers_content(user) if user.fate == PRESENT else None
        if content is None:
            continue
        if visudo is None:
            # On a fresh host the packages may not be there yet; only a real run needs them.
            if not module.check_mode:
                found.append(
                    f"user_accounts_users[{index}].sudo: sudo is not installed on this host."
                )
            continue
        trial = Path(module.tmpdir) / "rule"
        trial.write_text(content, encoding="utf-8")
        code, out, err = module.run_command([visudo, "-c", "-f", str(trial)])
        if code != 0:
            says = " ".join((err or out).replace(str(trial), "the rule").split())
            found.append(f"user_accounts_users[{index}].sudo is refused by visudo: {says}")
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    declared = [
        {key: value for key, value in entry.items() if value is not None}
        for entry in params["users"]
    ]
    problems = declared_problems(declared, params["groups"])
    if problems:
        module.fail_json(msg=" ".join(problems), problems=problems)
    users = [User.from_declared(entry, params["slice"]) for entry in declared]
    groups = {entry["name"]: entry["gid"] for entry in params["groups"]}
    host = look(users, params["archive_dir"], params["coming_shells"] if module.check_mode else ())
    users += dropped(users, host)
    problems = host_problems(users, groups, host) + sudo_problems(module, users)
    if problems:
        module.fail_json(msg=f"Nothing was changed. {' '.join(problems)}", problems=problems)

    steps = plan(users, groups, host)
    summaries = [step.summary for step in steps]
    record = record_of(users, host)
    if record != host.recorded:
        summaries.append("record who is managed")
    if not module.check_mode:
        # First: who was made by a run that broke off is known to the next one.
        if record != host.recorded:
            write_record({**host.recorded, **record})
        for step in steps:
            try:
                carry_out(step, module.run_command, params["archive_dir"])
            except (Failed, OSError) as error:
                module.fail_json(msg=f"Cannot {step.summary}: {error}", steps=summaries)
        if record != host.recorded:
            write_record(record)
    notes = warnings(users, host)
    for note in notes + passing_warnings(users, host):
        module.warn(note)
    module.exit_json(
        changed=bool(summaries),
        steps=summaries,
        notes=notes,
        ssh_problems=ssh_problems(module.run_command, users, host),
        diff={"before": "", "after": "".join(f"{summary}\n" for summary in summaries)},
    )


if __name__ == "__main__":
    main()
