#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: shells
short_description: Give people their shell and dotfiles
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
    description: Theme of oh-my-zsh for who names none.
    type: str
    default: robbyrussell
  plugins:
    description: Plugins of oh-my-zsh for who names none.
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

import contextlib
import io
import json
import os
import pwd
import shutil
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils._apply_agent.named import DOTFILES as RECORDS
from ..module_utils._host.as_user import UserError, account_of, as_user
from ..module_utils._host.state import as_json, read_text, write_atomically
from ..module_utils._host.unpack import Unfit, link_target, tree_id, unpack
from ..module_utils._roles.user_shell.dotfiles import SECONDS, Dotfiles, Wish, checked_record
from ..module_utils._roles.user_shell.plan import (
    CURRENT,
    ETC,
    OHMYZSH,
    SYSCTL,
    WATCHES,
    ZSHRC,
    Person,
    files,
    mark,
    people_here,
    source_line,
    with_block,
)

MOST_BYTES = 64 << 20
TRIES = 3
PAUSE = 3.0
# The files that shells read on Debian and Ubuntu, and what ours is called. zprofile is for logins.
READ_BY = {
    "/etc/bash.bashrc": "interactive.bash",
    "/etc/zsh/zprofile": "login.zsh",
    "/etc/zsh/zshrc": "interactive.zsh",
}
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


class Wrong(Exception):
    """Something stands in the way."""


class Shells:
    """The shells of this host, and what is done to them."""

    def __init__(self, params: dict[str, Any], dry: bool) -> None:
        self.params = params
        self.dry = dry
        self.changes: list[str] = []
        self.notes: list[str] = []
        self.dotfiles: dict[str, str] = {}
        self.people = people_here(
            params["users"],
            params["people"],
            params["slice"],
            params["theme"],
            params["plugins"],
        )

    def bring_about(self) -> None:
        """Do everything; what can fail for want of a network comes first."""
        self._ohmyzsh()
        self._files()
        self._watches()
        problems = []
        for person in self.people:
            # What is in the way of one is no reason to leave the others without.
            try:
                self._person(person)
            except Wrong as error:
                problems.append(str(error))
        if problems:
            raise Wrong("; ".join(problems))

    def _did(self, what: str) -> bool:
        self.changes.append(what)
        return not self.dry

    # Of the host

    def _ohmyzsh(self) -> None:
        if not any(person.ohmyzsh for person in self.people):
            if os.path.lexists(OHMYZSH) and self._did("remove oh-my-zsh"):
                shutil.rmtree(OHMYZSH)
            return
        tree = self.params["ohmyzsh_tree"]
        place = Path(OHMYZSH) / tree
        if not place.is_dir() or tree_id(place) != tree:
            commit = self.params["ohmyzsh_commit"]
            if not self._did(f"unpack oh-my-zsh {commit[:12]}"):
                return
            self._unpack(self._download(commit), place, tree)
        current = Path(CURRENT)
        before = link_target(current) if current.is_symlink() else ""
        if before != tree and self._did(f"switch to oh-my-zsh {tree[:12]}"):
            trial = current.with_name(f".current.{os.getpid()}")
            trial.symlink_to(tree)
            trial.replace(current)
        for left in sorted(Path(OHMYZSH).iterdir()):
            # Who is logged in may still read the one before.
            if left.name not in (tree, before, "current") and not self.dry:
                shutil.rmtree(str(left))

    def _download(self, commit: str) -> bytes:
        url = self.params["ohmyzsh_url"].replace("{commit}", commit)
        if url.startswith("/"):
            try:
                return Path(url).read_bytes()
            except OSError as error:
                raise Wrong(f"user_shell_ohmyzsh_url = {url!r} cannot be read: {error}") from None
        for attempt in range(1, TRIES + 1):
            try:
                data = bytes(open_url(url, timeout=60).read(MOST_BYTES + 1))
            except Exception as error:
                if attempt == TRIES:
                    raise Wrong(
                        f"user_shell_ohmyzsh_url = {url!r} cannot be fetched: {error}. Name a "
                        "mirror or a path on the host, or give nobody oh-my-zsh (ohmyzsh: false "
                        "in user_shell_people)"
                    ) from None
                time.sleep(PAUSE)
            else:
                break
        if len(data) > MOST_BYTES:
            raise Wrong(f"{url} is larger than {MOST_BYTES >> 20} MiB")
        return data

    def _unpack(self, data: bytes, place: Path, tree: str) -> None:
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        trial = place.with_name(f".{tree}.{os.getpid()}")
        try:
            trial.mkdir(mode=0o755)
            unpack(io.BytesIO(data), trial, strip=1)
            found = tree_id(trial)
            if found != tree:
                raise Wrong(
                    f"What user_shell_ohmyzsh_url gave has the tree {found}, and not "
                    f"user_shell_ohmyzsh_tree = {tree}. Nothing of it is used"
                )
            if place.exists():
                shutil.rmtree(str(place))
            trial.rename(place)
        except Unfit as error:
            raise Wrong(f"What user_shell_ohmyzsh_url gave is unfit: {error}") from None
        finally:
            shutil.rmtree(str(trial), ignore_errors=True)

    def _files(self) -> None:
        params = self.params
        marked = ""
        if params["prompt"]:
            marked = mark(params["slice"], params["worker_index"], params["worker_count"])
        wanted = files(marked, params["editor"], self.people)
        there = {str(path) for path in Path(ETC).rglob("*") if path.is_file()}
        for path in sorted({*wanted, *there}):
            self._file(path, wanted.get(path))
        for path, name in READ_BY.items():
            text = read_text(path)
            ours = f"{ETC}/{name}"
            # Without zsh there is no such file, and its package wants to bring it.
            if text is not None:
                line = source_line(ours) if ours in wanted else ""
                self._file(path, with_block(text, line))

    def _file(self, path: str, content: str | None) -> None:
        now = read_text(path)
        if now == content or not self._did(f"{'remove' if content is None else 'write'} {path}"):
            return
        if content is None:
            Path(path).unlink()
            return
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomically(path, content)

    def _watches(self) -> None:
        wanted = f"fs.inotify.max_user_watches = {WATCHES}\n" if self.params["vscode"] else None
        self._file(SYSCTL, wanted)
        # In a container the limit is the one of the computer around it.
        if wanted is None or Path("/run/systemd/container").exists():
            return
        limit = Path("/proc/sys/fs/inotify/max_user_watches")
        if int(limit.read_text(encoding="ascii")) < WATCHES and self._did("allow more watches"):
            limit.write_text(f"{WATCHES}\n", encoding="ascii")

    # Of people

    def _person(self, person: Person) -> None:
        account = account_of(person.user)
        if account is None:
            if not self.dry:
                raise Wrong(
                    f"{person.user} has no account on this host. Apply role user_accounts first"
                )
            self.changes.append(f"set up the shell of {person.user}, who has no account yet")
            return
        wish = self._wish(person)
        dry = self.dry
        kept = Path(RECORDS, f"{person.user}.json")
        text = read_text(kept)
        before = None if text is None else checked_record(json.loads(text))

        def work() -> dict[str, Any]:
            home = account.pw_dir
            done = Dotfiles(home, wish, dry, before).apply() if wish else {}
            changes = list(done.get("changes", []))
            if person.zsh:
                changes += own_files(Path(home), person.ohmyzsh, dry)
            return {**done, "changes": changes}

        try:
            done = as_user(account, work, seconds=SECONDS, umask=0o077)
        except UserError as error:
            raise Wrong(f"The shell of {person.user} cannot be set up: {error}") from None
        if wish and not dry:
            self._keep(account, kept, text, checked_record(done.get("record")))
        self.changes += [f"{person.user}: {change}" for change in done["changes"]]
        self.notes += [f"{person.user}: {note}" for note in done.get("notes", [])]
        if done.get("version"):
            self.dotfiles[person.user] = done["version"]

    def _keep(
        self, account: pwd.struct_passwd, path: Path, before: str | None, record: dict[str, Any]
    ) -> None:
        """Keep what is to be known of the dotfiles where their owner cannot change it."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if before != as_json(record):
            write_atomically(path, as_json(record), mode=0o600)
        if before is None:
            with contextlib.suppress(UserError):
                as_user(account, lambda: Dotfiles(account.pw_dir, Wish(), False).forget_earlier())

    def _wish(self, person: Person) -> Wish | None:
        dotfiles = person.dotfiles
        if not dotfiles:
            return None
        common = {
            "subfolder": dotfiles.get("subfolder", ""),
            "install": dotfiles.get("install", ""),
        }
        if dotfiles.get("repo"):
            version = dotfiles.get("version", "HEAD")
            return Wish(repo=dotfiles["repo"], version=version, **common)
        snapshot = self.params["snapshots"].get(person.user)
        if not snapshot:
            if self.dry:
                return None
            raise Wrong(
                f"There is no snapshot of the folder of {person.user} in user_shell_snapshots; "
                "the playbook tpu.fleet.configure makes it"
            )
        return Wish(digest=snapshot["digest"], archive=snapshot["archive"], **common)


def own_files(home: Path, ohmyzsh: bool, dry: bool) -> list[str]:
    """Give somebody with zsh the files that they do not have."""
    changes = []
    rc, link = home / ".zshrc", home / ".oh-my-zsh"
    if not os.path.lexists(rc):
        changes.append("write ~/.zshrc")
        if not dry:
            write_atomically(rc, ZSHRC, uid=os.getuid(), gid=os.getgid())
    # Where the usual ~/.zshrc looks for it.
    if ohmyzsh and not os.path.lexists(link):
        changes.append("link ~/.oh-my-zsh")
        if not dry:
            link.symlink_to(CURRENT)
    return changes


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    shells = Shells(module.params, module.check_mode)
    try:
        shells.bring_about()
    except (Wrong, OSError) as error:
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
