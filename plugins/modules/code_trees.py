#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: code_trees
short_description: Install versions of code, and link the current one
version_added: 0.1.0
description:
  - Takes all code trees of a host at once. Each version of a tree, a commit or a snapshot, has a
    folder of its own beside the tree's path, which is a link to one of them. What runs keeps the
    folder that it began in.
  - Everything is done with the rights of the tree's owner, whose keys fetch it.
  - Local changes are never discarded.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  state:
    description:
      - V(looked) says which version is meant and whether it is there, and changes nothing.
      - V(present) puts it there, and removes old versions that nothing uses.
    type: str
    choices: [looked, present]
    default: present
  trees:
    description: The trees, as in C(code_checkout_trees) of role P(tpu.fleet.code_checkout#role).
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the tree., type: str, required: true}
      owner: {description: Linux user., type: str, required: true}
      slices:
        description: Names of the slices that get it. Empty for all.
        type: list
        elements: str
        default: []
      dest: {description: Path of the link., type: str}
      repo: {description: Address of a git repository., type: str}
      version: {description: 'Branch, tag or commit.', type: str, default: HEAD}
      submodules: {description: Whether to fetch submodules., type: bool, default: true}
      lfs: {description: Whether to fetch the files of Git LFS., type: bool, default: false}
      folder: {description: Folder on the Ansible side that a snapshot was made of., type: str}
      local_changes:
        description: What to do with local changes when another version is due.
        type: str
        choices: [keep, refuse]
        default: refuse
  slice:
    description: Name of the slice of this host; trees that name others only are passed over.
    type: str
    default: ''
  versions:
    description: Version of each tree, where it is known already; of a snapshot its digest.
    type: dict
    default: {}
  incoming:
    description: Folder with the archives of snapshots, each C(<name>.tar.gz).
    type: path
    default: /var/lib/tpu-fleet/code/incoming
  keep:
    description: How many versions of a tree stay in any case.
    type: int
    default: 3
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows which version was there and which is.
    support: full
"""

EXAMPLES = r"""
- name: Put the code there
  tpu.fleet.code_trees:
    trees:
      - name: models
        owner: alice
        repo: git@github.com:example/models.git
        version: v1.2
"""

RETURN = r"""
versions:
  description: The commit or digest of each tree.
  type: dict
  returned: success
problems:
  description:
    - What is in the way of which tree; the other trees are put there.
    - With O(state=present) they are an error at the end.
  type: list
  elements: str
  returned: always
missing:
  description: Digests of the snapshots that are not there.
  type: list
  elements: str
  returned: success
contents:
  description: Hash of what is in each tree now; equal where the same would run.
  type: dict
  returned: when O(state=present)
changes:
  description: The local changes of each tree, by name.
  type: dict
  returned: success
records:
  description: Version and folder of each tree, by name; in check mode those that it would have.
  type: dict
  returned: when O(state=present)
kept:
  description: Old versions that nothing uses and that stay, and why.
  type: list
  elements: str
  returned: when O(state=present)
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import UserError
from ..module_utils._roles.code_checkout import plan as rules
from ..module_utils._roles.code_checkout.apply import Apply

TREE_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "owner": {"type": "str", "required": True},
    "slices": {"type": "list", "elements": "str", "default": []},
    "dest": {"type": "str"},
    "repo": {"type": "str"},
    "version": {"type": "str", "default": "HEAD"},
    "submodules": {"type": "bool", "default": True},
    "lfs": {"type": "bool", "default": False},
    "folder": {"type": "str"},
    "local_changes": {"type": "str", "choices": ["keep", "refuse"], "default": "refuse"},
}


def declared_problems(entries: list[dict[str, Any]]) -> list[str]:
    """Say what is wrong with the trees themselves."""
    found = []
    for index, entry in enumerate(entries):
        for key, message, remedy in rules.problems_of(entry):
            where = f"code_checkout_trees[{index}]" + (f".{key}" if key else "")
            found.append(f"{where} ({entry['name']}): {message}. {remedy}.")
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["looked", "present"], "default": "present"},
            "trees": {"type": "list", "elements": "dict", "default": [], "options": TREE_SPEC},
            "slice": {"type": "str", "default": ""},
            "versions": {"type": "dict", "default": {}},
            "incoming": {"type": "path", "default": "/var/lib/tpu-fleet/code/incoming"},
            "keep": {"type": "int", "default": 3},
        },
        supports_check_mode=True,
    )
    problems = declared_problems(module.params["trees"])
    if problems:
        module.fail_json(msg="Nothing was changed. " + " ".join(problems), problems=problems)
    apply = Apply(module.params, module.check_mode)
    apply.look()
    if module.params["state"] == "present":
        try:
            apply.put()
        except UserError as error:
            apply.problems.append(f"old versions stay: {error}")
        if apply.problems:
            module.fail_json(msg="; ".join(apply.problems), problems=apply.problems)
    module.exit_json(
        changed=bool(apply.before or apply.after),
        problems=apply.problems,
        versions=apply.versions,
        missing=sorted(set(apply.missing)),
        contents=apply.contents,
        changes=apply.changes,
        kept=apply.kept,
        records=apply.records,
        diff={"before": "".join(apply.before), "after": "".join(apply.after)},
    )


if __name__ == "__main__":
    main()
