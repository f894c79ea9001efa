"""Decide how a host gets the declared accounts. No I/O. Private to tpu.fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._host.shared_places import tmux_folder
from .rules import check_user_accounts

# Beside authorized_keys, which users and the cloud's guest agent write. The sshd of Debian and
# Ubuntu reads both.
KEYS_FILE = ".ssh/authorized_keys2"
SUDOERS = "/etc/sudoers.d/tpu-fleet-"
# With it, systemd creates each user's folder of tmux at boot, before a user can log in.
TMPFILES = "/etc/tmpfiles.d/tpu-fleet-users.conf"
# The day, counted from 1970, on which an account locked by this role expired. Others are foreign.
LOCKED_DAY = 1
GUEST_AGENT_GROUP = "google-sudoers"
# What systemd runs for a login. If only these are left, the user can be changed.
SESSION_PROGRAMS = frozenset({"systemd", "(sd-pam)", "dbus-daemon", "dbus-broker"})

PRESENT, LOCKED, ABSENT = "present", "locked", "absent"


# Permissions of a home in which others neither look nor read.
CLOSED = 0o750


@dataclass(frozen=True)
class User:
    """A declared user with all defaults."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[str, ...]
    keys: tuple[str, ...]
    sudo: str | tuple[str, ...]
    # The user's state on this host: present, locked or absent.
    fate: str = PRESENT
    home_on_removal: str = "keep"
    # The permissions of the home; without any, only its user gets in.
    home_mode: int | None = None

    @classmethod
    def from_declared(cls, entry: Mapping[str, Any], slice_name: str = "") -> User:
        """Return the user with all defaults, and the state that the entry means on a slice."""
        sudo = entry.get("sudo") or ()
        slices = entry.get("slices") or ()
        fate = PRESENT
        if entry.get("state") == "absent":
            fate = ABSENT
        elif slices and slice_name not in slices:
            fate = ABSENT if entry.get("unassigned") == "remove" else LOCKED
        return cls(
            name=entry["name"],
            uid=entry["uid"],
            gid=entry.get("gid") or entry["uid"],
            home=entry.get("home") or f"/home/{entry['name']}",
            shell=entry.get("shell") or "/bin/bash",
            groups=tuple(entry.get("groups") or ()),
            keys=tuple(" ".join(key.split()) for key in entry.get("keys") or ()),
            sudo=sudo if isinstance(sudo, str) else tuple(sudo),
            fate=fate,
            home_on_removal=entry.get("home_on_removal") or "keep",
            home_mode=int(mode, 8) if (mode := entry.get("home_permissions")) else None,
        )

    def mode_for(self, now: int) -> int:
        """Return the permissions for a home that has some; one that is closed further stays so."""
        return now & CLOSED if self.home_mode is None else self.home_mode


@dataclass(frozen=True)
class Account:
    """An account in the host's own files."""

    uid: int
    gid: int
    home: str
    shell: str
    # Whether there is a password, or a lock that could keep keys out, too.
    password: bool = False
    # The day on which it expires, counted from 1970.
    expires: int | None = None


@dataclass(frozen=True)
class Group:
    """A group of the host."""

    gid: int
    members: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Process:
    """A process of a user."""

    pid: int
    program: str = ""


@dataclass(frozen=True)
class Home:
    """A folder that is a home."""

    kind: str = "folder"
    uid: int = -1
    mode: int = CLOSED
    # Mount points at it or below.
    mounts: tuple[str, ...] = ()
    # The size of its files in bytes; only measured before an archive is made.
    size: int = 0


@dataclass(frozen=True)
class Host:
    """The facts about the host that the decision needs."""

    accounts: Mapping[str, Account]
    groups: Mapping[str, Group]
    shells: frozenset[str]
    # The content of each managed file that exists.
    files: Mapping[str, str] = field(default_factory=dict)
    # Processes by uid: an account in use can neither be renumbered nor removed.
    processes: Mapping[int, tuple[Process, ...]] = field(default_factory=dict)
    # Homes of declared users, by path; a home that does not exist is missing.
    homes: Mapping[str, Home] = field(default_factory=dict)
    # Uids whose user owns the folder in /tmp where tmux has the user's sockets.
    tmux_owners: frozenset[int] = frozenset()
    # Names and uids from a directory such as OS Login, which this host cannot change.
    foreign_names: Mapping[str, int] = field(default_factory=dict)
    foreign_uids: Mapping[int, str] = field(default_factory=dict)
    # The runs of each user.
    runs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Users that the cloud's guest agent has created.
    guest_agent_users: frozenset[str] = frozenset()
    # The users managed by earlier applies, with their uids.
    recorded: Mapping[str, int] = field(default_factory=dict)
    # The user as whom Ansible logs in.
    login: str = ""
    # The free bytes in the folder of archives.
    room: int = 1 << 62


@dataclass(frozen=True)
class Step:
    """A command, a file to write or remove, or a change of a home folder."""

    summary: str
    argv: tuple[str, ...] = ()
    path: str = ""
    content: str | None = None
    owner: str = ""
    mode: int = 0o600
    # (folder, old uid, new uid, old gid, new gid)
    renumber: tuple[str, int, int, int, int] | None = None
    # Done to the folder `path`: make, mode, take, archive, delete, or wait until `owner` runs no
    # process.
    work: str = ""


def declared_problems(users: list[Any], groups: list[Any]) -> list[str]:
    """Return the problems of the declaration itself, on any host."""
    data = {"fleet_users": users, "fleet_groups": groups}
    return [str(wrong) for wrong in check_user_accounts(data)]


def dropped(declared: Iterable[User], host: Host) -> list[User]:
    """Return users who were declared, no longer are, and still have the account."""
    names = {user.name for user in declared}
    found = []
    for name, uid in sorted(host.recorded.items()):
        account = host.accounts.get(name)
        if name in names or name == host.login or account is None or account.uid != uid:
            continue
        entry = {"name": name, "uid": uid, "home": account.home, "shell": account.shell}
        # Without a slice, the account is locked.
        found.append(User.from_declared({**entry, "slices": ["-"]}))
    return found


def record_of(users: Iterable[User], host: Host) -> dict[str, int]:
    """Return the users to record: those present here, and locked ones with an account."""
    found = {}
    for user in users:
        account = host.accounts.get(user.name)
        if user.fate == PRESENT:
            found[user.name] = user.uid
        elif user.fate == LOCKED and account is not None:
            found[user.name] = account.uid
    return found


def keys_path(user: User) -> str:
    """Return the path of a user's declared keys."""
    return f"{user.home}/{KEYS_FILE}"


def keys_content(user: User) -> str:
    """Return the content of a user's file of declared keys."""
    head = "# Managed by tpu.fleet: exactly the declared keys. Your own go into authorized_keys.\n"
    return head + "".join(f"{key}\n" for key in user.keys)


def sudoers_content(user: User) -> str | None:
    """Return a user's sudo rule; None if there is none."""
    # Any word but all, such as the none of an earlier version, gives no rights.
    if not user.sudo or (isinstance(user.sudo, str) and user.sudo != "all"):
        return None
    commands = "ALL" if isinstance(user.sudo, str) else ", ".join(user.sudo)
    return f"# Managed by tpu.fleet.\n{user.name} ALL=(ALL:ALL) NOPASSWD: {commands}\n"


def tmpfiles_content(users: Iterable[User], host: Host) -> str | None:
    """Return what systemd-tmpfiles creates at each boot; None without users.

    The runs of a locked user continue.
    """
    lines = []
    for user in users:
        account = host.accounts.get(user.name)
        uid, gid = user.uid, user.gid
        if user.fate == LOCKED and account is not None:
            uid, gid = account.uid, account.gid
        if user.fate == PRESENT or (user.fate == LOCKED and account is not None):
            lines.append(f"d {tmux_folder(uid)} 0700 {uid} {gid} - -\n")
    head = "# Managed by tpu.fleet: another user could take these names first.\n"
    return head + "".join(lines) if lines else None


def host_problems(users: list[User], groups: Mapping[str, int], host: Host) -> list[str]:
    """Return all conflicts with the host, so that they are known before anything is changed."""
    found = []
    owners_of_uid = {account.uid: name for name, account in host.accounts.items()}
    owners_of_gid = {group.gid: name for name, group in host.groups.items()}
    leaving = {user.name for user in users if user.fate == ABSENT}
    here = [user for user in users if user.fate == PRESENT]
    wanted_groups = {**groups, **{user.name: user.gid for user in here}}

    for name, gid in wanted_groups.items():
        holder = owners_of_gid.get(gid)
        if holder not in (None, name) and holder not in leaving:
            found.append(
                f"gid {gid} of group {name} belongs to group {holder} on this host. "
                f"Declare another one, or change or remove {holder}."
            )
    archives = 0
    for index, user in enumerate(users):
        at = f"fleet_users[{index}]"
        account = host.accounts.get(user.name)
        if account is not None and account.uid < 1000:
            found.append(
                f"{at}.name = {user.name!r} is a system account of this host (uid {account.uid})."
            )
            continue
        if user.fate != PRESENT:
            if user.name == host.login:
                found.append(
                    f"{at}.name = {user.name!r} is the user as whom Ansible logs in on this host. "
                    "Let it log in as another user first."
                )
            elif user.fate == ABSENT:
                found += _leaving_problems(at, user, host)
                archives += _leaving_home(user, host).size
            continue
        found += _numbers_problems(at, user, owners_of_uid, leaving, host)
        if user.shell not in host.shells:
            found.append(
                f"{at}.shell = {user.shell!r} is not a program of this host. "
                "Install it (fleet_packages) or declare another one."
            )
        for group in user.groups:
            if group not in wanted_groups and group not in host.groups:
                found.append(
                    f"{at}.groups names {group!r}, which is not a group of this host. "
                    "Declare it in fleet_groups."
                )
    if archives > host.room:
        found.append(
            f"The homes to archive take {_size(archives)}, but only {_size(host.room)} are "
            "free. Make room, set another folder in fleet_archive_dir, or set "
            "home_on_removal: keep."
        )
    return found


def warnings(users: list[User], host: Host) -> list[str]:
    """Return warnings about states that a reader of the fleet file would not expect."""
    found = []
    agents = host.groups.get(GUEST_AGENT_GROUP, Group(-1)).members
    for user in users:
        if user.fate == PRESENT and user.name in agents and user.sudo != "all":
            found.append(
                f"{user.name} may do everything as root, whatever sudo: says, being in the group "
                f"{GUEST_AGENT_GROUP}: the metadata of the project or the slice has a key of "
                "theirs. Remove it there."
            )
        if user.fate != PRESENT and user.name in host.guest_agent_users:
            found.append(
                f"{user.name} was created by the cloud's guest agent, which does so again while "
                "the metadata of the project or the slice has a key of theirs. Remove it there."
            )
    return found


def passing_warnings(users: list[User], host: Host) -> list[str]:
    """Return warnings that soon change, such as process ids, and so are not recorded."""
    found = []
    for user in users:
        account = host.accounts.get(user.name)
        if user.fate == LOCKED and account is not None:
            busy = _busy(account, host)
            if busy:
                found.append(
                    f"{user.name} is locked out of this host; these continue to run: "
                    f"{_shown(user, busy, host)}."
                )
    return found


def _numbers_problems(
    at: str, user: User, owners_of_uid: Mapping[int, str], leaving: set[str], host: Host
) -> Iterable[str]:
    account = host.accounts.get(user.name)
    remedy = "Remove the user from the fleet file, or switch OS Login off (enable-oslogin: FALSE)"
    if account is None and user.name in host.foreign_names:
        yield (
            f"{at}.name = {user.name!r} is an account of OS Login or another directory (uid "
            f"{host.foreign_names[user.name]}), not of this host. {remedy}."
        )
        return
    other = host.foreign_uids.get(user.uid)
    if other not in (None, user.name):
        yield (
            f"{at}.uid = {user.uid} belongs to {other}, a user of OS Login or another directory. "
            f"Give {user.name} another uid."
        )
    holder = owners_of_uid.get(user.uid)
    if holder not in (None, user.name) and holder not in leaving:
        yield (
            f"{at}.uid = {user.uid} belongs to user {holder} on this host. "
            f"Give {user.name} another uid, or change or remove {holder}."
        )
    left = host.homes.get(user.home)
    if account is None and left is not None and left.uid != user.uid:
        yield (
            f"{at}.home = {user.home!r} exists and belongs to uid {left.uid}. Move it "
            f"away, or give it to {user.name} (chown -R {user.uid}:{user.gid})."
        )
    busy = _busy(account, host) if account else ()
    if account is not None and account.uid != user.uid and busy:
        yield (
            f"{at}.uid = {user.uid}: {user.name} has uid {account.uid} on this host and cannot "
            f"get another one because of {_shown(user, busy, host)}. "
            f"End them first, or declare {account.uid}."
        )


def _leaving_problems(at: str, user: User, host: Host) -> Iterable[str]:
    account = host.accounts.get(user.name)
    busy = _busy(account, host) if account else ()
    if busy:
        yield (
            f"{at}.name = {user.name!r} cannot be removed because of "
            f"{_shown(user, busy, host)}. End them first; runs that are no longer declared are "
            "ended by the playbook train."
        )
    path = account.home if account else user.home
    home = host.homes.get(path)
    if home is None or user.home_on_removal == "keep":
        return
    verb = user.home_on_removal
    if account is not None and (home.kind != "folder" or home.uid != account.uid):
        yield (
            f"{at}.home_on_removal = {verb}: {path} is not a folder that {user.name} owns. "
            "Check it, and set keep."
        )
        return
    if not _is_leaving(user, host):
        return
    others = sorted(
        name
        for name, other in host.accounts.items()
        if name != user.name and f"{other.home}/".startswith(f"{path}/")
    )
    if others:
        yield (
            f"{at}.home_on_removal = {verb}: {path} is, or contains, the home of "
            f"{', '.join(others)}. Set keep."
        )
    if home.mounts:
        yield (
            f"{at}.home_on_removal = {verb}: {', '.join(home.mounts)} is mounted there. "
            "Unmount it first, so that its files stay, or set keep."
        )


def _is_leaving(user: User, host: Host) -> bool:
    """Return whether a home must be removed, also one that an earlier apply has left."""
    account = host.accounts.get(user.name)
    home = host.homes.get(account.home if account else user.home)
    if home is None or user.fate != ABSENT or user.home_on_removal == "keep":
        return False
    return home.kind == "folder" and home.uid == (account.uid if account else user.uid)


def _leaving_home(user: User, host: Host) -> Home:
    account = host.accounts.get(user.name)
    path = account.home if account else user.home
    if user.home_on_removal == "archive" and _is_leaving(user, host):
        return host.homes[path]
    return Home()


def _busy(account: Account, host: Host) -> tuple[Process, ...]:
    """Return the processes of an account, if there are others than those of a session."""
    found = host.processes.get(account.uid, ())
    mattering = any(process.program not in SESSION_PROGRAMS for process in found)
    return found if mattering else ()


def _shown(user: User, busy: tuple[Process, ...], host: Host) -> str:
    listed = [f"{process.pid} {process.program}".strip() for process in busy[:5]]
    more = f" and {len(busy) - 5} more" if len(busy) > 5 else ""
    runs = host.runs.get(user.name, ())
    which = f" (runs: {', '.join(runs)})" if runs else ""
    many = "processes" if len(busy) > 1 else "process"
    return f"{many} {', '.join(listed)}{more}{which}"


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


def plan(users: list[User], groups: Mapping[str, int], host: Host) -> list[Step]:
    """Return the steps in their order; none if the host is as declared."""
    steps: list[Step] = []
    # Users who leave go first, because that frees their numbers.
    for user in users:
        if user.fate == ABSENT:
            steps += _remove(user, host)
        elif user.fate == LOCKED:
            steps += _lock(user, host)
    present = [user for user in users if user.fate == PRESENT]
    own_groups = {user.name: user.gid for user in present}
    for name, gid in {**own_groups, **groups}.items():
        steps += _group(name, gid, host)
    managed = {*groups, *(name for user in present for name in user.groups)}
    for user in present:
        steps += _account(user, managed, host)
        steps += _file(keys_path(user), keys_content(user), user.name, 0o600, host)
        steps += _file(SUDOERS + user.name, sudoers_content(user), "root", 0o440, host)
        if user.uid not in host.tmux_owners:
            folder = tmux_folder(user.uid)
            steps.append(Step(f"make {folder}", path=folder, owner=user.name, work="take"))
    steps += _file(TMPFILES, tmpfiles_content(users, host), "root", 0o644, host)
    return steps


def _shut(user: User, account: Account | None, host: Host) -> Iterable[Step]:
    """Yield the steps that take a user's rights away."""
    yield from _file(SUDOERS + user.name, None, "root", 0o600, host)
    if account is not None:
        yield from _file(f"{account.home}/{KEYS_FILE}", None, user.name, 0o600, host)


def _lock(user: User, host: Host) -> Iterable[Step]:
    account = host.accounts.get(user.name)
    if account is None:
        return
    if account.expires != LOCKED_DAY:
        # Expiry also keeps out keys in authorized_keys, and cron.
        argv = ("usermod", "--expiredate", str(LOCKED_DAY), user.name)
        yield Step(f"lock {user.name} out, keep {account.home}", argv)
    yield from _shut(user, account, host)


def _remove(user: User, host: Host) -> Iterable[Step]:
    account = host.accounts.get(user.name)
    yield from _shut(user, account, host)
    path = account.home if account else user.home
    if account is not None:
        if host.processes.get(account.uid):
            yield Step(f"end the idle session of {user.name}", owner=user.name, work="end session")
        kept = f", keep {path}" if user.home_on_removal == "keep" and path in host.homes else ""
        yield Step(f"remove user {user.name}{kept}", ("userdel", user.name))
    if not _is_leaving(user, host):
        return
    # Without the account, no user can change what is archived.
    if user.home_on_removal == "archive":
        uid = account.uid if account else user.uid
        yield Step(f"archive {path}", path=path, owner=f"{user.name}-{uid}", work="archive")
    yield Step(f"delete {path}", path=path, work="delete")


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
            # A star cannot be typed as a password and, unlike a lock, keeps no key out.
            (
                "useradd",
                *("--uid", str(user.uid), "--gid", str(user.gid), "--password", "*"),
                *("--home-dir", user.home, "--create-home", "--shell", user.shell),
                *groups,
                user.name,
            ),
        )
        yield _open_home(user, CLOSED)
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
    elif account.home not in host.homes:
        yield Step(f"make {user.home}", path=user.home, owner=user.name, work="make")
        yield _open_home(user, CLOSED)
    else:
        home = host.homes[account.home]
        if (
            home.kind == "folder"
            and home.uid == account.uid
            and home.mode != user.mode_for(home.mode)
        ):
            yield _open_home(user, home.mode)
    if account.shell != user.shell:
        summary = f"change the shell of {user.name} from {account.shell} to {user.shell}"
        yield Step(summary, ("usermod", "--shell", user.shell, user.name))
    if account.password:
        argv = ("usermod", "--password", "*", user.name)
        yield Step(f"take the password of {user.name} away", argv)
    if account.expires == LOCKED_DAY:
        yield Step(f"let {user.name} in again", ("usermod", "--expiredate", "", user.name))
    has = {name for name, group in host.groups.items() if user.name in group.members}
    for name in sorted(set(user.groups) - has):
        yield Step(f"add {user.name} to group {name}", ("gpasswd", "--add", user.name, name))
    # Memberships in groups that are not declared (the cloud's, a package's) are kept.
    for name in sorted((has & managed) - set(user.groups)):
        yield Step(
            f"remove {user.name} from group {name}", ("gpasswd", "--delete", user.name, name)
        )


def _open_home(user: User, now: int) -> Step:
    mode = user.mode_for(now)
    summary = f"give {user.home} the mode {mode:04o}"
    return Step(summary, path=user.home, owner=user.name, mode=mode, work="mode")


def _file(path: str, content: str | None, owner: str, mode: int, host: Host) -> Iterable[Step]:
    now = host.files.get(path)
    if now == content:
        return
    verb = "remove" if content is None else ("change" if now is not None else "write")
    yield Step(f"{verb} {path}", path=path, content=content, owner=owner, mode=mode)
