"""Accounts of a small machine, written directly into its files, because useradd takes far longer.

The result is that of the guest agent of other machines, see guest/accounts.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .guest.accounts import GROUPS, STATE, SUDOERS, authorized_keys

_FIRST_ID, _LAST_ID = 1000, 59999
_FIRST_SYSTEM_ID, _LAST_SYSTEM_ID = 999, 100


@dataclass(frozen=True)
class Entry:
    """One line of /etc/passwd."""

    uid: int
    gid: int
    home: str


@dataclass(frozen=True)
class Books:
    """The texts of /etc/passwd, /etc/shadow and /etc/group."""

    passwd: str
    shadow: str
    group: str

    def entry(self, user: str) -> Entry | None:
        """Return a user's entry."""
        for line in self.passwd.splitlines():
            fields = line.split(":")
            if fields[0] == user and len(fields) >= 7:
                return Entry(int(fields[2]), int(fields[3]), fields[5])
        return None

    def with_user(self, user: str) -> Books:
        """Return them with an added user who can log in only with a key."""
        if self.entry(user):
            # Without PAM, sshd refuses users with a locked password, even with a key.
            return replace(
                self, shadow=f"\n{self.shadow}".replace(f"\n{user}:!:", f"\n{user}:*:")[1:]
            )
        number = _free(range(_FIRST_ID, _LAST_ID + 1), self.passwd, self.group)
        return Books(
            f"{self.passwd}{user}:x:{number}:{number}::/home/{user}:/bin/bash\n",
            f"{self.shadow}{user}:*:19000:0:99999:7:::\n",
            f"{self.group}{user}:x:{number}:\n",
        )

    def with_group(self, name: str) -> Books:
        """Return them with an added system group."""
        if any(line.startswith(f"{name}:") for line in self.group.splitlines()):
            return self
        number = _free(range(_FIRST_SYSTEM_ID, _LAST_SYSTEM_ID, -1), self.passwd, self.group)
        return replace(self, group=f"{self.group}{name}:x:{number}:\n")

    def with_member(self, user: str, groups: Iterable[str], wanted: bool) -> Books:
        """Return them with a user in all of these groups that exist, or in none of them."""
        lines = []
        for line in self.group.splitlines():
            name, _, rest = line.partition(":")
            head, _, listed = rest.rpartition(":")
            members = [member for member in listed.split(",") if member]
            if name in groups and (user in members) != wanted:
                members = [*members, user] if wanted else [m for m in members if m != user]
                line = f"{name}:{head}:{','.join(members)}"
            lines.append(line)
        return replace(self, group="".join(f"{line}\n" for line in lines))


def _free(numbers: Iterable[int], *texts: str) -> int:
    taken = {line.split(":")[2] for text in texts for line in text.splitlines() if ":" in line}
    return next(number for number in numbers if str(number) not in taken)


def changed(books: Books, keys: Mapping[str, list[str]], known: set[str]) -> Books:
    """Return the wanted accounts: former users lose sudo and keep their account."""
    books = books.with_group(SUDOERS)
    for user in sorted(keys):
        books = books.with_user(user)
        if user not in known:
            books = books.with_member(user, (SUDOERS, *GROUPS), True)
    for user in sorted(known - set(keys)):
        books = books.with_member(user, (SUDOERS,), False)
    return books


def apply(root: Path, keys: Mapping[str, list[str]]) -> None:
    """Update the accounts in the file system of a machine."""
    etc = root / "etc"
    names = ("passwd", "shadow", "group")
    before = Books(*((etc / name).read_text() for name in names))
    state = root / STATE.relative_to("/")
    known = set(state.read_text().split()) if state.exists() else set()
    after = changed(before, keys, known)
    for name in names:
        if getattr(after, name) != getattr(before, name):
            _replace(etc / name, getattr(after, name))
    for user in sorted({*keys, *known}):
        entry = after.entry(user)
        if entry:
            _write_home(root, entry, keys.get(user, []))
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("".join(f"{user}\n" for user in sorted(keys)))


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically and keep its permissions."""
    rights = path.stat()
    scratch = path.with_name(f"{path.name}.google")
    scratch.write_text(text)
    scratch.chmod(rights.st_mode & 0o7777)
    os.chown(scratch, rights.st_uid, rights.st_gid)
    scratch.replace(path)


def _write_home(root: Path, entry: Entry, keys: list[str]) -> None:
    home = root / entry.home.lstrip("/")
    if not home.exists():
        shutil.copytree(root / "etc/skel", home, symlinks=True)
        for path in (home, *home.rglob("*")):
            os.chown(path, entry.uid, entry.gid, follow_symlinks=False)
    folder = home / ".ssh"
    path = folder / "authorized_keys"
    current = path.read_text() if path.exists() else ""
    text = authorized_keys(current, keys)
    if text == current:
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, entry.uid, entry.gid)
    scratch = folder / "authorized_keys.google"
    scratch.write_text(text)
    scratch.chmod(0o600)
    os.chown(scratch, entry.uid, entry.gid)
    scratch.replace(path)
