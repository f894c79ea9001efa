# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the declared versions of the code trees of a host. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..._host.as_user import TimeLimitError, UserError, account_of, as_user, refuse_foreign
from ..._host.state import as_json, read_text, write_atomically
from ..here import is_on
from . import act as effects
from . import plan as rules


class Apply:
    """One apply of the module."""

    def __init__(self, params: dict[str, Any], dry: bool) -> None:
        self.dry = dry
        self.given: dict[str, str] = params["versions"]
        self.incoming = params["incoming"]
        self.keep = params["keep"]
        self.trees: list[rules.Tree] = []
        # The fields of the fleet file that declare the trees, by name.
        self.places: dict[str, str] = {}
        for index, entry in enumerate(params["trees"]):
            if is_on(entry, params["slice"]):
                tree = rules.tree_of(entry)
                self.trees.append(tree)
                self.places[tree.name] = f"fleet_code[{index}]"
        self.problems: list[str] = []
        self.versions: dict[str, str] = {}
        # Trees whose snapshot this host needs. Trees of the same folder share a version.
        self.missing: list[str] = []
        self.contents: dict[str, str] = {}
        self.changes: dict[str, list[str]] = {}
        self.kept: list[str] = []
        self.before: list[str] = []
        self.after: list[str] = []
        self.looks: dict[str, rules.Look] = {}
        # Version and folder of each tree after this apply.
        self.records: dict[str, dict[str, str]] = {}
        # Trees that cannot be installed now.
        self.blocked: set[str] = set()
        # Owners whose processes exceeded a time limit, with the error.
        self.slow: dict[str, str] = {}

    def look(self) -> None:
        """Resolve the versions, and read the state of the host."""
        for tree in self.trees:
            account = account_of(tree.owner)
            if account is None:
                if not self.dry:
                    self._block(tree, f"there is no user {tree.owner} on this host")
                continue
            version = self.given.get(tree.name, "")
            if tree.owner in self.slow:
                self._block(tree, self.slow[tree.owner])
                continue
            try:
                if not version and tree.repo:
                    # In check mode git may not be installed yet, so nothing can be resolved.
                    if self.dry and not Path("/usr/bin/git").exists():
                        continue
                    version = as_user(
                        account,
                        lambda t=tree: effects.resolve_here(t),  # type: ignore[misc]
                        seconds=effects.RESOLVE_SECONDS,
                    )
                if version:
                    # Recorded first, because the version is known even if the look fails.
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
                self.missing.append(tree.name)
            why = rules.obstacle(tree, version, look) if version else ""
            if why:
                self._block(tree, why)

    def _note_slow(self, tree: rules.Tree, error: Exception) -> None:
        """Record an owner whose work timed out, because a user can stop own processes forever."""
        if isinstance(error, TimeLimitError):
            self.slow[tree.owner] = str(error)

    def _block(self, tree: rules.Tree, why: str) -> None:
        """Report a problem and leave the tree unchanged; the other trees are installed."""
        self.blocked.add(tree.name)
        self._tell(tree, why)

    def _tell(self, tree: rules.Tree, why: str) -> None:
        self.problems.append(f"{self.places[tree.name]} ({tree.name}, {tree.dest}): {why}")

    def put(self) -> None:
        """Install all trees that are not as declared."""
        for tree in self.trees:
            if tree.name in self.blocked:
                continue
            version = self.versions.get(tree.name, "")
            look = self.looks.get(tree.name)
            if not version or look is None:
                if not self.dry:
                    self._tell(tree, "its snapshot was not sent")
                else:
                    self.after.append(f"{tree.dest} would be created\n")
                continue
            release = tree.release(version)
            self.records[tree.name] = {"version": version, "path": release}
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
        if account_of(tree.owner) is None:
            return
        if not look.there:
            self.bring(tree, version)
        self.switch(tree, version, look)

    def bring(self, tree: rules.Tree, version: str) -> None:
        """Install a version in its folder; the link still leads to the one before."""
        account = account_of(tree.owner)
        if account is None:
            return
        if tree.repo:
            self._install(
                tree, account, lambda: effects.fetch_git(tree, version), effects.FETCH_SECONDS
            )
            return
        archive = os.open(self.archive(tree), os.O_RDONLY)
        try:
            self._install(
                tree, account, lambda: effects.unpack(tree, version, archive), effects.TREE_SECONDS
            )
        finally:
            os.close(archive)

    def _install(
        self, tree: rules.Tree, account: Any, work: Callable[[], None], seconds: float
    ) -> None:
        """Do the work as the owner, in whose place root creates the folder if it must."""

        def install() -> bool:
            is_prepared = effects.can_prepare(tree)
            if is_prepared:
                work()
            return is_prepared

        # One process for both, because a sync waits for it.
        if not as_user(account, install, seconds=seconds):
            effects.prepare(tree, account)
            as_user(account, work, seconds=seconds)

    def switch(self, tree: rules.Tree, version: str, look: rules.Look) -> None:
        """Point the link to a version that is in its folder, and record it."""
        account = account_of(tree.owner)
        if account is None:
            return
        release = tree.release(version)
        is_switched, content = as_user(
            account,
            lambda: effects.switch_if_owners(tree, release, look.target),
            seconds=effects.TREE_SECONDS,
        )
        if not is_switched:
            refuse_foreign(Path(tree.dest).parent)
            effects.switch(tree, release)
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
        with contextlib.suppress(FileNotFoundError):
            self.archive(tree).unlink()

    def archive(self, tree: rules.Tree) -> Path:
        """Return where the snapshot of a tree arrives."""
        return Path(self.incoming, f"{tree.name}.tar.gz")

    def _clear_up(self) -> None:
        """Remove old versions, and trees that are no longer declared."""
        self.clear_old([*self.trees], self._undeclared())

    def clear_old(self, trees: Sequence[rules.Tree], gone: Sequence[rules.Tree] = ()) -> None:
        """Remove old versions of trees, and all of those that are gone, as far as none is used."""
        todo = []
        for tree in trees:
            current = tree.release(self.versions[tree.name])
            todo.append((tree, self._releases(tree), current, self.keep))
        for tree in gone:
            todo.append((tree, self._releases(tree), "", 0))
        if not any(len(found) > keep for _tree, found, _current, keep in todo):
            used: set[str] | None = set()
        else:
            used = effects.paths_in_use()
        if used is None:
            self.kept.append("old versions: what uses them cannot be seen")
            return
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
            entry = {
                "name": record.get("name"),
                "user": record.get("owner"),
                "path": record.get("dest"),
                "repo": record.get("repo"),
            }
            found.append(rules.tree_of(entry))
            if record.get("declared"):
                self.after.append(f"{record['name']} is no longer declared\n")
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
