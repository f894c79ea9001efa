"""Decide what gives a host the declared accounts. No I/O. Private to tpu.fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._fleet_role_user_accounts import check_user_accounts

# Beside authorized_keys, which people and the cloud's guest agent write. Debian's and Ubuntu's sshd
# read both.
KEYS_FILE = ".ssh/authorized_keys2"
SUDOERS = "/etc/sudoers.d/tpu-fleet-"


@dataclass(frozen=True)
class User:
    """A declared user with every default filled in."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[str, ...]
    keys: tuple[str, ...]
    sudo: str | tuple[str, ...]
    absent: bool = False
    remove_home: bool = False

    @classmethod
    def from_declared(cls, entry: Mapping[str, Any]) -> User:
        """Fill in the defaults."""
        sudo = entry.get("sudo") or "none"
        return cls(
            name=entry["name"],
            uid=entry["uid"],
            gid=entry.get("gid") or entry["uid"],
            home=entry.get("home") or f"/home/{entry['name']}",
            shell=entry.get("shell") or "/bin/bash",
            groups=tuple(entry.get("groups") or ()),
            keys=tuple(" ".join(key.split()) for key in entry.get("keys") or ()),
            sudo=sudo if isinstance(sudo, str) else tuple(sudo),
            absent=entry.get("state") == "absent",
            remove_home=bool(entry.get("remove_home")),
        )


@dataclass(frozen=True)
class Account:
    """An account that the host has."""

    uid: int
    gid: int
    home: str
    shell: str


@dataclass(frozen=True)
class Group:
    """A group that the host has."""

    gid: int
    members: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Host:
    """What the decision needs to know of the host."""

    accounts: Mapping[str, Account]
    groups: Mapping[str, Group]
    shells: frozenset[str]
    # The content of each managed file that exists.
    files: Mapping[str, str] = field(default_factory=dict)
    # Process ids by uid: an account in use can neither be renumbered nor removed.
    processes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A command, a file to write or remove, or a change of numbers below a folder."""

    summary: str
    argv: tuple[str, ...] = ()
    path: str = ""
    content: str | None = None
    owner: str = ""
    mode: int = 0o600
    # (folder, old uid, new uid, old gid, new gid)
    renumber: tuple[str, int, int, int, int] | None = None


def declared_problems(users: list[Any], groups: list[Any]) -> list[str]:
    """List what is wrong in the declaration itself, whatever the host."""
    data = {"user_accounts_users": users, "user_accounts_groups": groups}
    return [str(wrong) for wrong in check_user_accounts(data)]


def keys_path(user: User) -> str:
    """Name the file of a user's declared keys."""
    return f"{user.home}/{KEYS_FILE}"


def keys_content(user: User) -> str:
    """Write the file of a user's declared keys."""
    head = "# Managed by tpu.fleet: exactly the declared keys. Your own go into authorized_keys.\n"
    return head + "".join(f"{key}\n" for key in user.keys)


def sudoers_content(user: User) -> str | None:
    """Write a user's sudo rule, or nothing when there is none."""
    if user.sudo == "none" or not user.sudo:
        return None
    commands = "ALL" if isinstance(user.sudo, str) else ", ".join(user.sudo)
    return f"# Managed by tpu.fleet.\n{user.name} ALL=(ALL:ALL) NOPASSWD: {commands}\n"


def host_problems(users: list[User], groups: Mapping[str, int], host: Host) -> list[str]:
    """List every clash with what the host has, so that all are known before anything is changed."""
    found = []
    owners_of_uid = {account.uid: name for name, account in host.accounts.items()}
    owners_of_gid = {group.gid: name for name, group in host.groups.items()}
    leaving = {user.name for user in users if user.absent}
    wanted_groups = {**groups, **{user.name: user.gid for user in users if not user.absent}}

    for name, gid in wanted_groups.items():
        holder = owners_of_gid.get(gid)
        if holder not in (None, name) and holder not in leaving:
            found.append(
                f"gid {gid} of group {name} belongs to group {holder} on this host. "
                f"Declare another one, or change or remove {holder}."
            )
    for index, user in enumerate(users):
        at = f"user_accounts_users[{index}]"
        account = host.accounts.get(user.name)
        if account is not None and account.uid < 1000:
            found.append(
                f"{at}.name = {user.name!r} is a system account of this host (uid {account.uid})."
            )
            continue
        busy = host.processes.get(account.uid, ()) if account else ()
        shown = ", ".join(map(str, busy[:5]))
        if user.absent:
            if busy:
                found.append(
                    f"{at}.name = {user.name!r} cannot be removed: processes {shown} are theirs. "
                    "End them first."
                )
            continue
        holder = owners_of_uid.get(user.uid)
        if holder not in (None, user.name) and holder not in leaving:
            found.append(
                f"{at}.uid = {user.uid} belongs to user {holder} on this host. "
                f"Give {user.name} another one, or change or remove {holder}."
            )
        if account is not None and account.uid != user.uid and busy:
            found.append(
                f"{at}.uid = {user.uid}: {user.name} has uid {account.uid} on this host and cannot "
                f"get another one while processes {shown} are theirs. "
                f"End them first, or declare {account.uid}."
            )
        if user.shell not in host.shells:
            found.append(
                f"{at}.shell = {user.shell!r} is no program of this host. "
                "Install it (host_base_extra_packages) or declare another one."
            )
        for group in user.groups:
            if group not in wanted_groups and group not in host.groups:
                found.append(
                    f"{at}.groups names {group!r}, which is no group of this host. "
                    "Declare it in user_accounts_groups."
                )
    return found


def plan(users: list[User], groups: Mapping[str, int], host: Host) -> list[Step]:
    """List the steps in the order in which they must be done; none when the host is as declared."""
    steps: list[Step] = []
    # Who leaves goes first: numbers become free.
    for user in users:
        if user.absent:
            steps += _remove(user, host)
    present = [user for user in users if not user.absent]
    own_groups = {user.name: user.gid for user in present}
    for name, gid in {**own_groups, **groups}.items():
        steps += _group(name, gid, host)
    managed = {*groups, *(name for user in present for name in user.groups)}
    for user in present:
        steps += _account(user, managed, host)
        steps += _file(keys_path(user), keys_content(user), user.name, 0o600, host)
        steps += _file(SUDOERS + user.name, sudoers_content(user), "root", 0o440, host)
    return steps


def _remove(user: User, host: Host) -> Iterable[Step]:
    account = host.accounts.get(user.name)
    for path in (SUDOERS + user.name, f"{account.home if account else user.home}/{KEYS_FILE}"):
        yield from _file(path, None, "root", 0o600, host)
    if account is not None:
        home = ("--remove",) if user.remove_home else ()
        kept = "" if user.remove_home else f", keep {account.home}"
        yield Step(f"remove user {user.name}{kept}", ("userdel", *home, user.name))


def _group(name: str, gid: int, host: Host) -> Iterable[Step]:
    group = host.groups.get(name)
    if group is None:
        yield Step(f"add group {name} ({gid})", ("groupadd", "--gid", str(gid), name))
    elif group.gid != gid:
        summary = f"renumber group {name} from {group.gid} to {gid}"
        yield Step(summary, ("groupmod", "--gid", str(gid), name))


def _account(user: User, managed: set[str], host: Host) -> Iterable[Step]:
    account = host.accounts.get(user.name)
    if account is None:
        groups = ("--groups", ",".join(sorted(user.groups))) if user.groups else ()
        yield Step(
            f"add user {user.name} ({user.uid})",
            # A star is no password that could be typed, and unlike a lock it keeps no key out.
            (
                "useradd",
                *("--uid", str(user.uid), "--gid", str(user.gid), "--password", "*"),
                *("--home-dir", user.home, "--create-home", "--shell", user.shell),
                *groups,
                user.name,
            ),
        )
        return
    if account.uid != user.uid:
        summary = f"renumber user {user.name} from {account.uid} to {user.uid}"
        yield Step(summary, ("usermod", "--uid", str(user.uid), user.name))
    old_gid = host.groups[user.name].gid if user.name in host.groups else account.gid
    if account.gid not in (user.gid, old_gid) or user.name not in host.groups:
        summary = f"change the primary group of {user.name} from {account.gid} to {user.gid}"
        yield Step(summary, ("usermod", "--gid", str(user.gid), user.name))
    if (account.uid, old_gid) != (user.uid, user.gid):
        yield Step(
            f"give {account.home} the new numbers of {user.name}",
            renumber=(account.home, account.uid, user.uid, old_gid, user.gid),
        )
    if account.home != user.home:
        summary = f"move the home of {user.name} from {account.home} to {user.home}"
        yield Step(summary, ("usermod", "--home", user.home, "--move-home", user.name))
    if account.shell != user.shell:
        summary = f"change the shell of {user.name} from {account.shell} to {user.shell}"
        yield Step(summary, ("usermod", "--shell", user.shell, user.name))
    has = {name for name, group in host.groups.items() if user.name in group.members}
    for name in sorted(set(user.groups) - has):
        yield Step(f"add {user.name} to group {name}", ("gpasswd", "--add", user.name, name))
    # Groups that nobody declares (the cloud's own, a package's) are left alone.
    for name in sorted((has & managed) - set(user.groups)):
        yield Step(
            f"take {user.name} out of group {name}", ("gpasswd", "--delete", user.name, name)
        )


def _file(path: str, content: str | None, owner: str, mode: int, host: Host) -> Iterable[Step]:
    now = host.files.get(path)
    if now == content:
        return
    verb = "remove" if content is None else ("change" if now is not None else "write")
    yield Step(f"{verb} {path}", path=path, content=content, owner=owner, mode=mode)
