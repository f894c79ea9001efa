#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: code_trees
short_description: Put versions of code into folders of their own and lead a link to one
version_added: 0.1.0
description:
  - Takes all code trees of a host at once. Each version of a tree, a commit or a snapshot, has a
    folder of its own beside the tree's path, which is a link to one of them. What runs keeps the
    folder that it began in.
  - Everything is done with the rights of the tree's owner, whose keys fetch it.
  - What somebody changed is never thrown away.
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
        description: What to do when another version is due and somebody changed files.
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
  description: What somebody changed in the trees, by name.
  type: dict
  returned: success
kept:
  description: Old versions that nothing uses and that stay, and why.
  type: list
  elements: str
  returned: when O(state=present)
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import (
    TimeLimitError,
    UserError,
    account_of,
    as_user,
    refuse_foreign,
)
from ..module_utils._host.state import as_json, read_text, write_atomically
from ..module_utils._roles.code_checkout import act as effects
from ..module_utils._roles.code_checkout import plan as rules

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


class Apply:
    """One run of the module."""

    def __init__(self, params: dict[str, Any], dry: bool) -> None:
        self.dry = dry
        self.given: dict[str, str] = params["versions"]
        self.incoming = params["incoming"]
        self.keep = params["keep"]
        self.trees: list[rules.Tree] = []
        # Where each of them is declared.
        self.places: dict[str, str] = {}
        for index, entry in enumerate(params["trees"]):
            if not entry["slices"] or params["slice"] in entry["slices"]:
                tree = rules.tree_of(entry)
                self.trees.append(tree)
                self.places[tree.name] = f"code_checkout_trees[{index}]"
        self.problems: list[str] = []
        self.versions: dict[str, str] = {}
        self.missing: list[str] = []
        self.contents: dict[str, str] = {}
        self.changes: dict[str, list[str]] = {}
        self.kept: list[str] = []
        self.before: list[str] = []
        self.after: list[str] = []
        self.looks: dict[str, rules.Look] = {}
        # Trees that something is in the way of.
        self.blocked: set[str] = set()
        # What owners did not do in its time.
        self.slow: dict[str, str] = {}

    def look(self) -> None:
        """Learn which versions are meant and what is there."""
        for tree in self.trees:
            account = account_of(tree.owner)
            if account is None:
                if not self.dry:
                    self._block(tree, f"there is no user {tree.owner} here")
                continue
            version = self.given.get(tree.name, "")
            if tree.owner in self.slow:
                self._block(tree, self.slow[tree.owner])
                continue
            try:
                if not version and tree.repo:
                    # Where check mode did not install git, nothing can be asked.
                    if self.dry and not Path("/usr/bin/git").exists():
                        continue
                    version = as_user(
                        account,
                        lambda t=tree: effects.resolve_here(t),  # type: ignore[misc]
                        seconds=effects.RESOLVE_SECONDS,
                    )
                if version:
                    # Whatever is in the way of the look: what is meant is known.
                    self.versions[tree.name] = version
                found = as_user(
                    account,
                    lambda t=tree, v=version: effects.look_here(t, v),  # type: ignore[misc]
                    seconds=effects.TREE_SECONDS,
                )
            except UserError as error:
                self._note_slow(tree, error)
                self._block(tree, str(error))
                continue
            look = effects.as_look(found)
            self.looks[tree.name] = look
            if look.changes:
                self.changes[tree.name] = list(look.changes)
            if not tree.repo and version and not look.there:
                self.missing.append(version)
            why = rules.obstacle(tree, version, look) if version else ""
            if why:
                self._block(tree, why)

    def _note_slow(self, tree: rules.Tree, error: Exception) -> None:
        """Remember an owner whose work had no end: they can stop all that is done as them."""
        if isinstance(error, TimeLimitError):
            self.slow[tree.owner] = str(error)

    def _block(self, tree: rules.Tree, why: str) -> None:
        """Leave a tree as it is; the others are put there."""
        self.blocked.add(tree.name)
        self._tell(tree, why)

    def _tell(self, tree: rules.Tree, why: str) -> None:
        self.problems.append(f"{self.places[tree.name]} ({tree.name}, {tree.dest}): {why}")

    def put(self) -> None:
        """Put everything there that is not."""
        for tree in self.trees:
            if tree.name in self.blocked:
                continue
            version = self.versions.get(tree.name, "")
            look = self.looks.get(tree.name)
            if not version or look is None:
                if not self.dry:
                    self._tell(tree, "there is no snapshot of it")
                else:
                    self.after.append(f"{tree.dest} would be put there\n")
                continue
            release = tree.release(version)
            if not look.there or look.target != release:
                old = look.target if look.dest == "link" else "nothing"
                self.before.append(f"{tree.dest} -> {old}\n")
                self.after.append(f"{tree.dest} -> {release}\n")
            if self.dry:
                continue
            if tree.owner in self.slow:
                self._block(tree, self.slow[tree.owner])
                continue
            try:
                self._put(tree, version, look)
            except (OSError, UserError) as error:
                self._note_slow(tree, error)
                self._tell(tree, str(error))
        if self.dry:
            self._undeclared()
        elif not self.problems:
            self._clear_up()

    def _put(self, tree: rules.Tree, version: str, look: rules.Look) -> None:
        account = account_of(tree.owner)
        if account is None:
            return
        release = tree.release(version)
        if not look.there:
            effects.prepare(tree, account)
            if tree.repo:
                as_user(
                    account,
                    lambda: effects.fetch_git(tree, version),
                    seconds=effects.FETCH_SECONDS,
                )
            else:
                archive = os.open(f"{self.incoming}/{tree.name}.tar.gz", os.O_RDONLY)
                try:
                    as_user(
                        account,
                        lambda: effects.unpack(tree, version, archive),
                        seconds=effects.TREE_SECONDS,
                    )
                finally:
                    os.close(archive)
        if look.target != release:
            parent = str(Path(tree.dest).parent)
            if as_user(account, lambda: os.access(parent, os.W_OK)):
                as_user(account, lambda: effects.switch(tree, release))
            else:
                refuse_foreign(parent)
                effects.switch(tree, release)
        content = as_user(
            account, lambda: effects.content_of(tree, release), seconds=effects.TREE_SECONDS
        )
        self.contents[tree.name] = content
        record = {
            "name": tree.name,
            "kind": tree.kind,
            "owner": tree.owner,
            "dest": tree.dest,
            "path": release,
            "version": version,
            "content": content,
            "changes": self.changes.get(tree.name, []) if look.target == release else [],
            "declared": True,
        }
        if tree.repo:
            record.update(repo=tree.repo, ref=tree.version)
        text = as_json(record)
        if read_text(tree.record) != text:
            Path(tree.record).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            write_atomically(tree.record, text)

    def _clear_up(self) -> None:
        """Remove old versions, and trees that are not declared any more."""
        for tree in self.trees:
            with contextlib.suppress(FileNotFoundError):
                Path(self.incoming, f"{tree.name}.tar.gz").unlink()
        todo = []
        for tree in self.trees:
            current = tree.release(self.versions[tree.name])
            todo.append((tree, self._releases(tree), current, self.keep))
        for tree in self._undeclared():
            todo.append((tree, self._releases(tree), "", 0))
        if not any(len(found) > keep for _tree, found, _current, keep in todo):
            used: set[str] = set()
        else:
            used = effects.paths_in_use()
        for tree, found, current, keep in todo:
            account = account_of(tree.owner)
            if account is None:
                continue
            for path in rules.may_go(found, current, used, keep):
                why = as_user(
                    account,
                    lambda p=path: effects.remove_release(p),  # type: ignore[misc]
                    seconds=effects.TREE_SECONDS,
                )
                if why:
                    self.kept.append(why)
                else:
                    self.before.append(f"{path}\n")
            if not current and not self._releases(tree):
                self._forget(tree, account)

    def _releases(self, tree: rules.Tree) -> list[tuple[float, str]]:
        account = account_of(tree.owner)
        return effects.releases_of(tree, account) if account else []

    def _undeclared(self) -> list[rules.Tree]:
        declared = {tree.name for tree in self.trees}
        found = []
        for path in sorted(Path(rules.RECORDS).glob("*.json")):
            record = json.loads(read_text(path) or "{}")
            if record.get("name") in declared or not record.get("owner"):
                continue
            entry = {key: record.get(key) for key in ("name", "owner", "dest", "repo")}
            found.append(rules.tree_of(entry))
            if record.get("declared"):
                self.after.append(f"{record['name']} is not declared any more\n")
                if not self.dry:
                    write_atomically(path, as_json({**record, "declared": False}))
        return found

    def _forget(self, tree: rules.Tree, account: Any) -> None:
        as_user(account, lambda: effects.remove_rest(tree), seconds=effects.TREE_SECONDS)
        parent = Path(tree.dest).parent
        if as_user(account, lambda: os.access(str(parent), os.W_OK)):
            as_user(account, lambda: effects.remove_link(tree))
        else:
            refuse_foreign(parent)
            effects.remove_link(tree)
        Path(tree.record).unlink()
        self.before.append(f"{tree.dest}\n")


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
        diff={"before": "".join(apply.before), "after": "".join(apply.after)},
    )


if __name__ == "__main__":
    main()
