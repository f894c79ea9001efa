# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Understand how Ansible reaches a host, from its variables, for connections without ssh.

An option that would change which host key is trusted or how a host is reached, and that is not
understood here, is an error and never ignored.
"""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...module_utils._inventory.connections import asks_for_cheap

# Not done here, and not harmless to leave out.
REFUSED = frozenset(
    {
        "certificatefile",
        "hostkeyalgorithms",
        "include",
        "knownhostscommand",
        "match",
        "pkcs11provider",
        "revokedhostkeys",
        "securitykeyprovider",
    }
)
# Their value is the rest of the line, quotes and all.
WHOLE_LINE = frozenset({"proxycommand"})
# The variables in which Ansible says how a host is reached, in the order of the arguments of
# target_of; those after the fourth are options of ssh.
REACHED_BY = (
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_ssh_private_key_file",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
)
# They add up; of all others the first value counts.
ADD_UP = frozenset({"identityfile"})


class SshConfigError(ValueError):
    """Variables of a host that cannot be followed; the message names host, option and remedy."""


@dataclass(frozen=True)
class Target:
    """How one host is reached, and by what it is known."""

    name: str
    address: str
    port: int = 22
    user: str = ""
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    identity_agent: str = "SSH_AUTH_SOCK"
    key_name: str = ""
    """The name in known_hosts: an alias that stays when the address changes."""
    known_hosts: tuple[str, ...] = ()
    accept_new: bool = False
    proxy_command: str = ""
    cheap_kex: bool = False
    """Whether the key exchange is the cheap one."""


@dataclass(frozen=True)
class Fleet:
    """The usable workers, and the groups of all workers."""

    targets: Mapping[str, Target]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inventory: tuple[str, ...] = ()
    """The sources of the inventory that it was read from."""


def target_by(name: str, variable: Callable[[str], Any]) -> Target:
    """Understand how Ansible reaches a host; the function returns a variable, or None."""
    address, port, user, key, *arguments = (str(variable(one) or "") for one in REACHED_BY)
    return target_of(name, address, port, user, key, arguments)


def target_of(
    name: str, address: str, port: str, user: str, key: str, arguments: Iterable[str]
) -> Target:
    """Understand how Ansible reaches a host: what is empty is as ssh has it.

    The arguments are ansible_ssh_common_args and the like: options of ssh.
    """
    told: dict[str, list[str]] = {}
    for option, value in (("hostname", address), ("port", port), ("user", user)):
        if value:
            told[option] = [value]
    if key:
        told["identityfile"] = [key]
    words = [word for text in arguments for word in shlex.split(text)]
    while words:
        word = words.pop(0)
        if not word.startswith("-o"):
            raise SshConfigError(
                f"ssh's {word} in the variables of {name} is not understood here. Write it as -o."
            )
        text = word[2:] or (words.pop(0) if words else "")
        option, _equals, value = text.partition("=")
        option = option.strip().lower()
        if option in REFUSED:
            raise SshConfigError(f"ssh's {option} of {name} is not understood here. Take it out.")
        try:
            values = [value] if option in WHOLE_LINE else _words(value)
        except ValueError as error:
            raise SshConfigError(f"{name}: ssh's {option}: {error}") from error
        if not values or not values[0]:
            raise SshConfigError(f"{name}: ssh's {option} has no value.")
        _note(told, option, values)
    return _target(name, told)


def _note(told: dict[str, list[str]], option: str, values: list[str]) -> None:
    """Add an option of a host to those that are known."""
    if option in ADD_UP:
        told.setdefault(option, []).extend(values)
    else:
        told.setdefault(option, values)


def _words(rest: str) -> list[str]:
    # Nearly all lines are plain, and shlex is slow.
    return shlex.split(rest) if set(rest) & set("\"'\\") else rest.split()


def _target(name: str, told: Mapping[str, list[str]]) -> Target:
    def first(option: str, default: str = "") -> str:
        return told.get(option, [default])[0]

    try:
        port = int(first("port", "22"))
    except ValueError as error:
        raise SshConfigError(f"The port of {name} is no number.") from error
    user = first("user") or getpass.getuser()
    address = _expand(first("hostname", name), {"h": name, "n": name, "%": "%"})
    tokens = {"h": address, "n": name, "p": str(port), "r": user, "d": str(Path.home()), "%": "%"}
    jump = first("proxyjump")
    proxy = first("proxycommand")
    if jump.lower() not in ("", "none") and not proxy:
        # As ssh does it; the user's own ssh configuration says how the jump host is reached.
        *before, last = jump.split(",")
        more = ["-J", ",".join(before)] if before else []
        words = ["ssh", *more, "-W", f"[{address}]:{port}", last]
        proxy = shlex.join(words)
    elif proxy.lower() == "none":
        proxy = ""
    else:
        proxy = _expand(proxy, tokens)
    alias = first("hostkeyalias")
    return Target(
        name=name,
        address=address,
        port=port,
        user=user,
        identity_files=tuple(
            _file(path, tokens) for path in told.get("identityfile", []) if path.lower() != "none"
        ),
        identities_only=first("identitiesonly").lower() == "yes",
        identity_agent=_file(first("identityagent", "SSH_AUTH_SOCK"), tokens),
        key_name=alias or (address if port == 22 else f"[{address}]:{port}"),
        known_hosts=tuple(
            _file(path, tokens)
            for option, default in (
                ("userknownhostsfile", ["~/.ssh/known_hosts"]),
                ("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts"]),
            )
            for path in told.get(option, default)
            if path.lower() not in ("none", "/dev/null")
        ),
        # Everything else, "no" and "ask" too, means that an unknown key is refused.
        accept_new=first("stricthostkeychecking").lower() == "accept-new",
        proxy_command=proxy,
        cheap_kex=asks_for_cheap(first("kexalgorithms")),
    )


def _file(path: str, tokens: Mapping[str, str]) -> str:
    return str(Path(_expand(path, tokens)).expanduser())


def _expand(text: str, tokens: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        letter = match.group(1)
        if letter not in tokens:
            raise SshConfigError(f"%{letter} in {text!r} is not understood here.")
        return tokens[letter]

    return re.sub(r"%(.)", replace, text) if "%" in text else text
