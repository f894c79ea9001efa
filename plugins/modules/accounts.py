#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: accounts
short_description: Give a host its users and groups
version_added: 0.1.0
description:
  - Makes users, groups, authorized keys and sudo rules as declared, all in one step.
  - Everything is checked against the host before the first change. A number that belongs to
    somebody else, a missing shell or a sudo rule that sudo refuses ends the module with nothing
    changed.
  - Declared keys live in a file of their own, C(~/.ssh/authorized_keys2), and are exactly the
    declared ones. What people and the cloud's guest agent keep in C(authorized_keys) is left alone.
  - There are no passwords. Users that are no longer declared are left alone; remove one with
    O(users[].state=absent).
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
      remove_home:
        description: Whether the home folder goes with the user.
        type: bool
        default: false
  groups:
    description: Further groups.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the group., type: str, required: true}
      gid: {description: Number of the group., type: int, required: true}
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
"""

import contextlib
import grp
import os
import pwd
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._accounts import (
    KEYS_FILE,
    SUDOERS,
    Account,
    Group,
    Host,
    Step,
    User,
    declared_problems,
    host_problems,
    plan,
    sudoers_content,
)
from ..module_utils._host_state import read_text, write_atomically

USER_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "gid": {"type": "int"},
    "home": {"type": "path"},
    "shell": {"type": "path", "default": "/bin/bash"},
    "groups": {"type": "list", "elements": "str", "default": []},
    "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "sudo": {"type": "raw", "default": "none"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "remove_home": {"type": "bool", "default": False},
}
GROUP_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "gid": {"type": "int", "required": True},
}


def processes_by_uid() -> dict[int, tuple[int, ...]]:
    """List the processes of each user."""
    found: dict[int, tuple[int, ...]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            uid = entry.stat().st_uid
            found[uid] = (*found.get(uid, ()), int(entry.name))
    return found


def look(users: list[User]) -> Host:
    """See what the host has."""
    accounts = {
        entry.pw_name: Account(entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_shell)
        for entry in pwd.getpwall()
    }
    groups = {
        entry.gr_name: Group(entry.gr_gid, frozenset(entry.gr_mem)) for entry in grp.getgrall()
    }
    paths = set()
    for user in users:
        paths.add(SUDOERS + user.name)
        paths.add(f"{user.home}/{KEYS_FILE}")
        if user.name in accounts:
            paths.add(f"{accounts[user.name].home}/{KEYS_FILE}")
    contents = {path: read_text(path) for path in paths}
    return Host(
        accounts=accounts,
        groups=groups,
        shells=frozenset(user.shell for user in users if os.access(user.shell, os.X_OK)),
        files={path: text for path, text in contents.items() if text is not None},
        processes=processes_by_uid(),
    )


def sudo_problems(module: AnsibleModule, users: list[User]) -> list[str]:
    """Ask visudo about every rule."""
    visudo = module.get_bin_path("visudo", opt_dirs=["/usr/sbin", "/sbin"])
    found = []
    for index, user in enumerate(users):
        content = None if user.absent else sudoers_content(user)
        if content is None:
            continue
        if visudo is None:
            # On a fresh host the packages may not be there yet; only a real run needs them.
            if not module.check_mode:
                found.append(
                    f"user_accounts_users[{index}].sudo: sudo is not installed on this host."
                )
            continue
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as trial:
            trial.write(content)
            trial.flush()
            code, out, err = module.run_command([visudo, "-c", "-f", trial.name])
        if code != 0:
            says = " ".join((err or out).replace(trial.name, "the rule").split())
            found.append(f"user_accounts_users[{index}].sudo is refused by visudo: {says}")
    return found


def renumber(folder: str, old_uid: int, new_uid: int, old_gid: int, new_gid: int) -> None:
    """Give the files of one owner their new numbers; files of others stay."""
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = Path(parent) / name
            with contextlib.suppress(FileNotFoundError):
                status = os.lstat(path)
                uid = new_uid if status.st_uid == old_uid else -1
                gid = new_gid if status.st_gid == old_gid else -1
                if (uid, gid) != (-1, -1):
                    os.lchown(path, uid, gid)


def write_user_file(step: Step) -> None:
    """Write below a home with the rights of its owner, so that no link there can mislead root."""
    owner = pwd.getpwnam(step.owner)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.initgroups(owner.pw_name, owner.pw_gid)
            os.setgid(owner.pw_gid)
            os.setuid(owner.pw_uid)
            folder = Path(step.path).parent
            folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(
                step.path, step.content or "", mode=step.mode, uid=owner.pw_uid, gid=owner.pw_gid
            )
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError(f"{step.owner} cannot write {step.path}")


def carry_out(module: AnsibleModule, step: Step) -> None:
    """Do one step."""
    if step.argv:
        program = module.get_bin_path(step.argv[0], required=True, opt_dirs=["/usr/sbin", "/sbin"])
        code, out, err = module.run_command([program, *step.argv[1:]])
        if code != 0:
            module.fail_json(msg=f"Cannot {step.summary}: {(err or out).strip()}")
        return
    try:
        if step.renumber:
            renumber(*step.renumber)
        elif step.content is None:
            Path(step.path).unlink()
        elif step.owner == "root":
            write_atomically(step.path, step.content, mode=step.mode)
        else:
            write_user_file(step)
    except OSError as error:
        module.fail_json(msg=f"Cannot {step.summary}: {error}")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "users": {"type": "list", "elements": "dict", "default": [], "options": USER_SPEC},
            "groups": {"type": "list", "elements": "dict", "default": [], "options": GROUP_SPEC},
        },
        supports_check_mode=True,
    )
    declared = [
        {key: value for key, value in entry.items() if value is not None}
        for entry in module.params["users"]
    ]
    problems = declared_problems(declared, module.params["groups"])
    if problems:
        module.fail_json(msg=" ".join(problems), problems=problems)
    users = [User.from_declared(entry) for entry in declared]
    groups = {entry["name"]: entry["gid"] for entry in module.params["groups"]}
    host = look(users)
    problems = host_problems(users, groups, host) + sudo_problems(module, users)
    if problems:
        module.fail_json(msg=f"Nothing was changed. {' '.join(problems)}", problems=problems)

    steps = plan(users, groups, host)
    if not module.check_mode:
        for step in steps:
            carry_out(module, step)
    summaries = [step.summary for step in steps]
    module.exit_json(
        changed=bool(steps),
        steps=summaries,
        diff={"before": "", "after": "".join(f"{summary}\n" for summary in summaries)},
    )


if __name__ == "__main__":
    main()
