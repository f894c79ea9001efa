#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: git_access
short_description: Give the users of a host their keys, hosts and settings of git
version_added: 0.1.0
description:
  - Does in one step what the role P(tpu.fleet.git_access#role) declares.
  - Keys and settings in a home are written, read and removed with the rights of its owner.
  - What was made before and is not declared any more is removed.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  keys:
    description: The keys.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the key., type: str, required: true}
      users: {description: Who has it., type: list, elements: str, required: true}
      source:
        description: Where it comes from.
        type: str
        choices: [user, machine, shared]
        default: user
      host: {description: Git server., type: str, default: github.com}
      register:
        description: What it is at the server.
        type: str
        choices: [none, user, deploy]
        default: none
      repository: {description: The repository of a deploy key., type: str}
  private_keys:
    description:
      - Private keys of the shared ones, by name.
      - They stand apart, for what Ansible writes into the journal of the host hides whole arguments
        for certain, but a text of several lines inside of one it does not find again.
    type: dict
    default: {}
  identities:
    description: Who users are for git.
    type: list
    elements: dict
    default: []
    suboptions:
      user: {description: Login., type: str, required: true}
      name: {description: Name in commits., type: str}
      email: {description: Mail address in commits., type: str}
      config: {description: Further settings., type: dict, default: {}}
      safe_directories: {description: Folders of others., type: list, elements: str, default: []}
      lfs: {description: Whether to use git-lfs., type: bool, default: false}
  hosts:
    description: Git servers besides GitHub and GitLab.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name in URLs., type: str, required: true}
      hostname: {description: Where to connect., type: str}
      port: {description: Port., type: int, default: 22}
      login: {description: Login., type: str, default: git}
      keys: {description: Public host keys., type: list, elements: str, required: true}
  elsewhere:
    description: Users who are not to be on this host. They have no key and no settings here.
    type: list
    elements: str
    default: []
  host:
    description: Name of this host in the comments of the keys made here.
    type: str
    required: true
  state_dir:
    description: Folder of the state.
    type: path
    default: /var/lib/tpu-fleet
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows files before and after; of a private key only its fingerprint.
    support: full
"""

EXAMPLES = r"""
- name: Give Alice a key for GitHub
  tpu.fleet.git_access:
    host: solo
    keys:
      - name: work
        users: [alice]
    identities:
      - user: alice
        name: Alice Example
        email: alice@example.org
"""

RETURN = r"""
changed_paths:
  description: What was changed.
  type: list
  elements: str
  returned: always
users:
  description: Public keys and more, by user, as they are in C(git_access.json).
  type: dict
  returned: always
"""

import json
import os
import pwd
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError, as_user
from ..module_utils._host.state import as_json, read_text, write_atomically
from ..module_utils._roles.git_access import plan as git
from ..module_utils._roles.git_access.act import KeyFile, Problem, public_key, settle, settle_key

KEY_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "users": {"type": "list", "elements": "str", "required": True},
    "source": {"type": "str", "choices": ["user", "machine", "shared"], "default": "user"},
    "host": {"type": "str", "default": "github.com"},
    "register": {"type": "str", "choices": ["none", "user", "deploy"], "default": "none"},
    "repository": {"type": "str"},
}
IDENTITY_SPEC: dict[str, Any] = {
    "user": {"type": "str", "required": True},
    "name": {"type": "str"},
    "email": {"type": "str"},
    "config": {"type": "dict", "default": {}},
    "safe_directories": {"type": "list", "elements": "str", "default": []},
    "lfs": {"type": "bool", "default": False},
}
HOST_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "hostname": {"type": "str"},
    "port": {"type": "int", "default": 22},
    "login": {"type": "str", "default": "git"},
    "keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
}


class Host:
    """Brings one host to what is declared, and notes what it changed."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.check: bool = module.check_mode
        self.name: str = module.params["host"]
        self.keygen = module.get_bin_path("ssh-keygen") or ""
        self.changes: list[dict[str, str]] = []
        self.problems: list[str] = []

    def system_file(self, path: str, content: str) -> None:
        """Write a file of the system."""
        before = read_text(path)
        if before == content:
            return
        self.changes.append({"path": path, "before": before or "", "after": content})
        if not self.check:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)

    def shared_public(self, key: git.GitKey) -> str:
        """Return the public half of a key from a vault, before anybody gets it."""
        if not self.keygen:
            return ""
        # /run is memory; a file is the only way in which ssh-keygen takes a key.
        with tempfile.NamedTemporaryFile("w", dir="/run", encoding="ascii") as trial:
            trial.write(key.private)
            trial.flush()
            try:
                return public_key(self.keygen, trial.name)
            except Problem:
                raise Problem(
                    f"git_access_keys: key {key.name!r}: private_key is no private key that "
                    "OpenSSH can read without a passphrase. Give the whole text of such a file"
                ) from None

    def machine_private(self, key: git.GitKey) -> str:
        """Return the machine's own key, made now if there is none."""
        path = Path(git.MACHINE_KEYS) / key.name
        wanted = KeyFile(str(path), key.name, f"{key.name}@{self.name}")
        if not self.check:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.changes += settle_key(self.keygen, wanted, check=self.check)[1]
        return read_text(path) or ""

    def forget_machine_keys(self, kept: set[str]) -> None:
        """Remove the machine's keys that are not declared any more."""
        for path in sorted(Path(git.MACHINE_KEYS).glob("*")):
            if path.name.rpartition(".pub")[0] not in kept and path.name not in kept:
                self.changes.append({"path": str(path), "before": "a key\n", "after": ""})
                if not self.check:
                    path.unlink()

    def settle(self, home: git.Home, privates: dict[str, str]) -> dict[str, str]:
        """Bring one home to what is declared; return the public keys in it."""
        try:
            account = pwd.getpwnam(home.user)
        except KeyError:
            if not home.keys and not home.settings:
                return {}
            if self.check:
                # An earlier step would have made the user.
                self.changes.append({"path": f"~{home.user}", "before": "", "after": "keys\n"})
                return {}
            raise Problem(
                f"git_access: {home.user!r} is no user of this host. Declare it in "
                "user_accounts_users"
            ) from None
        files = [
            KeyFile(
                git.KEY_PREFIX + key.name,
                key.name,
                f"{home.user}@{self.name}" if key.source == "user" else f"{key.name}@{self.name}",
                privates.get(key.name, ""),
                key.source != "user",
            )
            for key in home.keys
        ]
        said = as_user(
            account,
            lambda: settle(self.keygen, account.pw_dir, home, files, check=self.check),
            umask=0o077,
        )
        self.changes += said["changes"]
        public: dict[str, str] = said["public"]
        return public


def bring_about(host: Host, params: dict[str, Any]) -> dict[str, Any]:
    """Do it all; return what is to be recorded."""
    record = Path(params["state_dir"]) / "git_access.json"
    before = json.loads(read_text(record) or "{}")
    keys = git.keys_of(params["keys"], params["elsewhere"])
    identities = [one for one in params["identities"] if one["user"] not in params["elsewhere"]]
    if keys and not host.keygen and not host.check:
        raise Problem("git_access: ssh-keygen is not installed on this host")
    # Everything is judged before anything is written.
    privates = {key.name: key.private for key in keys if key.source == "shared"}
    for key in keys:
        if key.source == "shared":
            host.shared_public(key)
    servers = git.all_hosts(params["hosts"])
    wanted = git.homes(keys, identities, before)
    host.system_file(git.KNOWN_HOSTS, git.known_hosts(servers))
    host.system_file(git.SSH_CONFIG, git.ssh_config(servers, keys))
    machine = [key for key in keys if key.source == "machine" and key.users]
    privates.update({key.name: host.machine_private(key) for key in machine})
    host.forget_machine_keys({key.name for key in machine})
    public, failed = {}, []
    for home in wanted:
        # What is in the way of one is no reason to leave the others without.
        try:
            public[home.user] = host.settle(home, privates)
        except UserError as error:
            host.problems.append(str(error))
            failed.append(home.user)
    after = git.recorded([home for home in wanted if home.user not in failed], public)
    known = before.get("users") or {}
    after["users"].update({user: known[user] for user in failed if user in known})
    if after != before and not host.check:
        record.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(record, as_json(after))
    return dict(after)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "keys": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": KEY_SPEC,
                "no_log": False,
            },
            "private_keys": {"type": "dict", "default": {}, "no_log": True},
            "identities": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": IDENTITY_SPEC,
            },
            "hosts": {"type": "list", "elements": "dict", "default": [], "options": HOST_SPEC},
            "elsewhere": {"type": "list", "elements": "str", "default": []},
            "host": {"type": "str", "required": True},
            "state_dir": {"type": "path", "default": "/var/lib/tpu-fleet"},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    for entry in module.params["keys"]:
        entry["private_key"] = module.params["private_keys"].get(entry["name"])
    host = Host(module)
    try:
        recorded = bring_about(host, module.params)
    except (Problem, UserError, OSError) as error:
        paths = [change["path"] for change in host.changes]
        module.fail_json(msg=f"{error}.", changed_paths=paths)
    if host.problems:
        paths = [change["path"] for change in host.changes]
        module.fail_json(
            msg=f"git_access: {'; '.join(host.problems)}. Everybody else is set up.",
            changed_paths=paths,
        )
    module.exit_json(
        changed=bool(host.changes),
        changed_paths=[change["path"] for change in host.changes],
        users=recorded["users"],
        diff=[
            {
                "before_header": change["path"],
                "after_header": change["path"],
                "before": change["before"],
                "after": change["after"],
            }
            for change in host.changes
        ],
    )


if __name__ == "__main__":
    main()
