#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: shells
short_description: Manage shells and dotfiles of users
version_added: 0.1.0
description:
  - Marks the prompt of bash and zsh, puts a pinned oh-my-zsh on the host, and brings dotfiles.
  - Everything in a home folder is done with the rights of its owner. A file that must give way is
    moved to C(~/.local/share/tpu-fleet/backup).
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  users:
    description: The users, as P(tpu.fleet.user_accounts#role) takes them.
    type: list
    elements: dict
    default: []
  people:
    description: What some of them want, as P(tpu.fleet.user_shell#role) takes it.
    type: list
    elements: dict
    default: []
  slice:
    description: Slice of this host.
    type: str
    default: ''
  worker_index:
    description: Number of this host in its slice.
    type: int
    default: 0
  worker_count:
    description: How many hosts the slice has.
    type: int
    default: 1
  prompt:
    description: Whether the prompt begins with slice and worker.
    type: bool
    default: true
  editor:
    description: Program that C(EDITOR) names.
    type: str
    default: ''
  vscode:
    description: Whether to allow as many watches for files as the server of VS Code needs.
    type: bool
    default: true
  theme:
    description: Default theme of oh-my-zsh.
    type: str
    default: robbyrussell
  plugins:
    description: Default plugins of oh-my-zsh.
    type: list
    elements: str
    default: [git]
  ohmyzsh_commit:
    description: Commit of oh-my-zsh.
    type: str
    default: ''
  ohmyzsh_tree:
    description: Git's id of the files of that commit.
    type: str
    default: ''
  ohmyzsh_url:
    description: Where its archive comes from; C({commit}) stands for the commit.
    type: str
    default: ''
  snapshots:
    description: Dotfiles that come from folders, by user, each with C(digest) and C(archive).
    type: dict
    default: {}
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Lists the changes.
    support: full
"""

EXAMPLES = r"""
- name: Set the shells up
  tpu.fleet.shells:
    users:
      - {name: alice, uid: 2001, shell: /usr/bin/zsh}
    people:
      - user: alice
        dotfiles: {repo: "https://example.com/alice/dotfiles.git"}
    slice: pair
    worker_index: 1
    worker_count: 2
    ohmyzsh_commit: 830a5bcfd29fd577fdcd5f3b8e98cbaf973421fa
    ohmyzsh_tree: 6848519e586973040c1e68560458ac4b2741c39a
    ohmyzsh_url: https://mirror.example.com/ohmyzsh-{commit}.tar.gz
"""

RETURN = r"""
changes:
  description: What was done, in order.
  type: list
  elements: str
  returned: always
notes:
  description: What was left alone, or put aside, and why; they are warnings too.
  type: list
  elements: str
  returned: always
dotfiles:
  description: Which version of the dotfiles each user has.
  type: dict
  returned: always
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils._apply_agent.named import DOTFILES
from ..module_utils._host.work import Failed
from ..module_utils._roles.user_shell.apply import Shells

SPEC: dict[str, Any] = {
    "users": {"type": "list", "elements": "dict", "default": []},
    "people": {"type": "list", "elements": "dict", "default": []},
    "slice": {"type": "str", "default": ""},
    "worker_index": {"type": "int", "default": 0},
    "worker_count": {"type": "int", "default": 1},
    "prompt": {"type": "bool", "default": True},
    "editor": {"type": "str", "default": ""},
    "vscode": {"type": "bool", "default": True},
    "theme": {"type": "str", "default": "robbyrussell"},
    "plugins": {"type": "list", "elements": "str", "default": ["git"]},
    "ohmyzsh_commit": {"type": "str", "default": ""},
    "ohmyzsh_tree": {"type": "str", "default": ""},
    "ohmyzsh_url": {"type": "str", "default": ""},
    # Whoever may read the journal would find everybody's dotfiles in it.
    "snapshots": {"type": "dict", "default": {}, "no_log": True},
}


def fetch(url: str, most: int) -> bytes:
    """Get at most so many bytes from an address."""
    return bytes(open_url(url, timeout=60).read(most))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    shells = Shells(module.params, module.check_mode, DOTFILES, fetch)
    try:
        shells.bring_about()
    except (Failed, OSError) as error:
        module.fail_json(msg=f"{error}", changes=shells.changes)
    for note in shells.notes:
        module.warn(note)
    module.exit_json(
        changed=bool(shells.changes),
        changes=shells.changes,
        notes=shells.notes,
        dotfiles=shells.dotfiles,
        diff={"before": "", "after": "".join(f"{change}\n" for change in shells.changes)},
    )


if __name__ == "__main__":
    main()
