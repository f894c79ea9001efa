# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which files give users access to git servers, and their contents. No I/O."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .servers import PUBLIC_HOSTS

MANAGED = "# Managed by tpu.fleet (role git_access).\n"
SSH_CONFIG = "/etc/ssh/ssh_config.d/50-tpu-fleet-git.conf"
KNOWN_HOSTS = "/etc/tpu-fleet/git_known_hosts"
MACHINE_KEYS = "/etc/tpu-fleet/git-keys"
KEY_PREFIX = ".ssh/id_tpu_fleet_"
GIT_CONFIG = ".config/git/tpu-fleet.gitconfig"
# git reads it before ~/.gitconfig, so the user's settings there win.
GIT_INCLUDING = ".config/git/config"
INCLUDE = "[include]\n\tpath = tpu-fleet.gitconfig\n"
LFS = {
    "filter.lfs.clean": "git-lfs clean -- %f",
    "filter.lfs.smudge": "git-lfs smudge -- %f",
    "filter.lfs.process": "git-lfs filter-process",
    "filter.lfs.required": "true",
}


@dataclass(frozen=True)
class GitHost:
    """A git server, and its host keys."""

    name: str
    keys: tuple[str, ...]
    hostname: str = ""
    port: int = 22
    login: str = "git"


@dataclass(frozen=True)
class GitKey:
    """One declared key."""

    name: str
    users: tuple[str, ...]
    source: str = "user"
    private: str = field(default="", repr=False)
    host: str = "github.com"
    register: str = ""
    repository: str = ""

    @property
    def alias(self) -> str:
        """Return the host name that makes ssh offer only this key, if it needs one.

        A deploy key opens one repository. With two of them, the server's name would not show which
        key to offer.
        """
        return f"{self.host}--{self.name}" if self.register == "deploy" else ""


def all_hosts(declared: Iterable[Mapping[str, Any]]) -> dict[str, GitHost]:
    """Return the built-in and the declared servers, by name."""
    hosts = {name: GitHost(name, keys) for name, keys in PUBLIC_HOSTS.items()}
    for entry in declared:
        hosts[entry["name"]] = GitHost(
            entry["name"],
            tuple(" ".join(key.split()[:2]) for key in entry["keys"]),
            entry.get("hostname") or "",
            int(entry.get("port") or 22),
            entry.get("user") or "git",
        )
    return hosts


def keys_of(declared: Iterable[Mapping[str, Any]], elsewhere: Container[str] = ()) -> list[GitKey]:
    """Return the declared keys with all defaults, without users who are not on this host."""
    return [
        GitKey(
            name=entry["name"],
            users=tuple(user for user in entry["users"] if user not in elsewhere),
            source=entry.get("source") or "user",
            private=clean_private_key(entry.get("private_key") or ""),
            host=entry.get("host") or "github.com",
            register=entry.get("register") or "",
            repository=entry.get("repository") or "",
        )
        for entry in declared
    ]


def clean_private_key(text: str) -> str:
    """Repair what vaults and editors do to a key: line ends, and a missing last one."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


def known_hosts(hosts: Mapping[str, GitHost]) -> str:
    """Return the file of host keys, for ssh's lookups with any port."""
    lines = [f"{host.name} {key}\n" for _name, host in sorted(hosts.items()) for key in host.keys]
    return MANAGED + "".join(lines)


def ssh_config(hosts: Mapping[str, GitHost], keys: Iterable[GitKey]) -> str:
    """Return ssh's settings for the git servers; for each setting, the first match counts."""
    blocks = [MANAGED]
    keys = list(keys)
    # ssh adds up IdentityFile over all blocks, and tries the keys in turn.
    for key in keys:
        for user in key.users:
            blocks.append(
                f"Match originalhost {key.alias or key.host} localuser {user}\n"
                f"    IdentityFile ~/{KEY_PREFIX}{key.name}\n"
                "    IdentitiesOnly yes\n"
            )
    for key in keys:
        if key.alias:
            blocks.append(_host_block(key.alias, hosts[key.host]))
    for name in sorted(hosts):
        blocks.append(_host_block(name, hosts[name]))
    # The rest of /etc/ssh/ssh_config is for all hosts again.
    return "\n".join(blocks) + "\nMatch all\n"


def _host_block(name: str, host: GitHost) -> str:
    lines = [f"Host {name}", f"HostKeyAlias {host.name}", f"User {host.login}"]
    hostname = host.hostname or (host.name if name != host.name else "")
    if hostname:
        lines.append(f"HostName {hostname}")
    if host.port != 22:
        lines.append(f"Port {host.port}")
    lines += [
        f"GlobalKnownHostsFile {KNOWN_HOSTS}",
        "UserKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
        "UpdateHostKeys no",
    ]
    return "\n    ".join(lines) + "\n"


def git_settings(identity: Mapping[str, Any] | None, keys: Iterable[GitKey]) -> str:
    """Return a user's settings of git; empty if nothing is set."""
    values: list[tuple[str, str]] = []
    identity = identity or {}
    for option in ("name", "email"):
        if identity.get(option):
            values.append((f"user.{option}", str(identity[option])))
    values += [("safe.directory", folder) for folder in identity.get("safe_directories") or ()]
    if identity.get("lfs"):
        values += list(LFS.items())
    for option, value in sorted((identity.get("config") or {}).items()):
        values.append((option, _text(value)))
    for key in keys:
        if key.alias:
            # Only with .git at the end: without it, NAME would match NAME-two as well.
            here = f"url.git@{key.alias}:{key.repository}.git.insteadOf"
            values += [
                (here, f"git@{key.host}:{key.repository}.git"),
                (here, f"ssh://git@{key.host}/{key.repository}.git"),
                (here, f"https://{key.host}/{key.repository}.git"),
            ]
    return MANAGED + "".join(_setting(*pair) for pair in values) if values else ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _setting(option: str, value: str) -> str:
    """Return one setting; a name is section.key or section.some.thing.key."""
    section, _dot, rest = option.partition(".")
    middle, _dot, name = rest.rpartition(".")
    head = f'[{section} "{_quoted(middle)}"]' if middle else f"[{section}]"
    return f'{head}\n\t{name} = "{_quoted(value)}"\n'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def with_include(text: str) -> str:
    """Return the user's git config with an include of the role's settings."""
    if INCLUDE in text:
        return text
    return text + ("" if not text or text.endswith("\n") else "\n") + INCLUDE


def without_include(text: str) -> str:
    """Return the user's git config without the include."""
    return text.replace(INCLUDE, "")


@dataclass(frozen=True)
class Home:
    """What one user's home is to contain."""

    user: str
    keys: tuple[GitKey, ...] = ()
    gone: tuple[str, ...] = ()
    """Names of keys that the role has created and that are no longer declared."""
    settings: str = ""
    had_settings: bool = False


def homes(
    keys: Iterable[GitKey],
    identities: Iterable[Mapping[str, Any]],
    record: Mapping[str, Any],
) -> list[Home]:
    """Return the homes to change: of the declared users, and of those declared before."""
    keys = list(keys)
    by_user = {entry["user"]: entry for entry in identities}
    before = record.get("users") or {}
    names = {user for key in keys for user in key.users} | set(by_user) | set(before)
    found = []
    for user in sorted(names):
        own = tuple(key for key in keys if user in key.users)
        known = before.get(user) or {}
        gone = sorted(set(known.get("keys") or ()) - {key.name for key in own})
        settings = git_settings(by_user.get(user), own)
        found.append(Home(user, own, tuple(gone), settings, bool(known.get("settings"))))
    return found


def recorded(wanted: Iterable[Home], public_keys: Mapping[str, Mapping[str, str]]) -> Any:
    """Return what is recorded: only public keys, by user and name."""
    users = {}
    for home in wanted:
        keys = {
            key.name: {
                "public": public_keys.get(home.user, {}).get(key.name, ""),
                "source": key.source,
                "host": key.host,
                "register": key.register,
                "repository": key.repository,
            }
            for key in home.keys
        }
        if keys or home.settings:
            users[home.user] = {"keys": keys, "settings": bool(home.settings)}
    return {"users": users}
