# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring git's keys and settings on a host to their declared state. Private to tpu.fleet."""

from __future__ import annotations

import json
import pwd
import shutil
import tempfile
from collections.abc import Container
from pathlib import Path
from typing import Any

from ..._host.as_user import PATH, UserError, as_user
from ..._host.state import as_json, read_text, write_atomically
from ..._host.work import difference
from ..here import on_slice
from . import plan as git
from .act import KeyFile, public_key, settle, settle_key

RECORD = Path("/var/lib/tpu-fleet/git_access.json")


class Host:
    """Brings one host to its declared state, and records the changes."""

    def __init__(self, name: str, check: bool) -> None:
        self.name = name
        self.check = check
        self.keygen = shutil.which("ssh-keygen", path=PATH) or ""
        self.changes: list[dict[str, str]] = []
        self.problems: list[str] = []

    def changed_paths(self) -> list[str]:
        """Return the paths that changed."""
        return [change["before_header"] for change in self.changes]

    def system_file(self, path: str, content: str) -> None:
        """Write a file of the system."""
        before = read_text(path)
        if before == content:
            return
        self.changes.append(difference(path, before or "", content))
        if not self.check:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)

    def shared_public(self, key: git.GitKey) -> str:
        """Return the public half of a key from a vault, before any user gets the key."""
        if not self.keygen:
            return ""
        # ssh-keygen only reads keys from files; /run is in memory.
        with tempfile.NamedTemporaryFile("w", dir="/run", encoding="ascii") as trial:
            trial.write(key.private)
            trial.flush()
            try:
                return public_key(self.keygen, trial.name)
            except UserError:
                raise UserError(
                    f"fleet_git_keys: key {key.name!r}: private_key is not a private key that "
                    "OpenSSH can read without a passphrase. Set it to the whole text of such a file"
                ) from None

    def machine_private(self, key: git.GitKey) -> str:
        """Return the machine's own key; create it if there is none."""
        path = Path(git.MACHINE_KEYS) / key.name
        wanted = KeyFile(str(path), key.name, f"{key.name}@{self.name}")
        if not self.check:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.changes += settle_key(self.keygen, wanted, check=self.check)[1]
        return read_text(path) or ""

    def forget_machine_keys(self, kept: set[str]) -> None:
        """Remove the machine's keys that are no longer declared."""
        for path in sorted(Path(git.MACHINE_KEYS).glob("*")):
            if path.name.rpartition(".pub")[0] not in kept and path.name not in kept:
                self.changes.append(difference(str(path), "a key\n", ""))
                if not self.check:
                    path.unlink()

    def settle(self, home: git.Home, privates: dict[str, str]) -> dict[str, str]:
        """Bring one home to its declared state; return the public keys in it."""
        try:
            account = pwd.getpwnam(home.user)
        except KeyError:
            if not home.keys and not home.settings:
                return {}
            if self.check:
                # In check mode, an earlier step would have created the user.
                self.changes.append(difference(f"~{home.user}", "", "keys\n"))
                return {}
            raise UserError(
                f"git_access: {home.user!r} is not a user of this host. Declare it in fleet_users"
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


def bring_about(
    host: Host, settings: dict[str, Any], elsewhere: Container[str], record: Path = RECORD
) -> dict[str, Any]:
    """Apply everything; return the record to write.

    `elsewhere` are the users without access to this slice.
    """
    before = json.loads(read_text(record) or "{}")
    mine = settings["slice"]
    keys = git.keys_of(on_slice(settings["keys"], mine), elsewhere)
    identities = [
        one for one in on_slice(settings["identities"], mine) if one["user"] not in elsewhere
    ]
    if keys and not host.keygen and not host.check:
        raise UserError("git_access: ssh-keygen is not installed on this host")
    # Check everything before anything is written.
    privates = {key.name: key.private for key in keys if key.source == "shared"}
    for key in keys:
        if key.source == "shared":
            host.shared_public(key)
    servers = git.all_hosts(settings["hosts"])
    wanted = git.homes(keys, identities, before)
    host.system_file(git.KNOWN_HOSTS, git.known_hosts(servers))
    host.system_file(git.SSH_CONFIG, git.ssh_config(servers, keys))
    machine = [key for key in keys if key.source == "machine" and key.users]
    privates.update({key.name: host.machine_private(key) for key in machine})
    host.forget_machine_keys({key.name for key in machine})
    public, failed = {}, []
    for home in wanted:
        # A problem of one user must not keep the others from their keys.
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
