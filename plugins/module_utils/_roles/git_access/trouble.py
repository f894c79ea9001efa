# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why git cannot read a repository, with a remedy. Pure.

docs/errors.md is generated from the causes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from re import Pattern

from ..._core.plain_text import shown


@dataclass(frozen=True)
class Cause:
    """One cause: its name, git's message, and the remedy."""

    key: str
    pattern: Pattern[str]
    short: str
    means: str
    remedy: str
    sample: str
    again: bool = False
    """Whether a retry may succeed."""
    at_github: str = ""
    """What GitHub offers beside the remedy."""


# The first cause that matches counts.
CAUSES = (
    Cause(
        "git_host_key_changed",
        re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED"),
        "{host} shows another host key than the known one",
        "The server has a new key, or another machine answers for it. Nothing was sent to it.",
        "Ask its owner which keys it has now, and write them into fleet_git_hosts (keys of "
        "{host}); do not connect before you know",
        "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!",
    ),
    Cause(
        "git_host_key_unknown",
        re.compile(r"Host key verification failed|No \S+ host key is known for"),
        "no host key of {host} is known",
        "ssh connects only to servers whose keys are known beforehand. Those of github.com and "
        "gitlab.com are, where git_access is declared.",
        "Declare {host} with its public keys in fleet_git_hosts; for github.com and gitlab.com "
        "declare fleet_git_keys or fleet_git_identities, which bring theirs",
        "Host key verification failed.",
    ),
    Cause(
        "git_name_unknown",
        re.compile(r"Could not resolve host|Name or service not known", re.IGNORECASE),
        "the name {host} cannot be resolved",
        "The machine asked for the address of the server, and there is none of this name, or no "
        "name server answers.",
        "Look at the address of the repository (repo), and at the machine's way out (an external "
        "address or Cloud NAT): getent hosts {host}",
        "ssh: Could not resolve hostname github.com: Name or service not known",
        again=True,
    ),
    Cause(
        "git_no_such_repository",
        re.compile(
            r"Repository not found|repository '[^']*' not found|does not appear to be a git "
            r"repository|project you were looking for could not be found",
            re.IGNORECASE,
        ),
        "there is no such repository, or {user} may not see it",
        "The server let {user} in and has no repository of this name to show. Servers do not say "
        "whether it is missing or another account's.",
        "Look at the address (repo); and see that the account which has {key} may read it",
        "ERROR: Repository not found.",
    ),
    Cause(
        "git_no_key",
        re.compile(r"Permission denied \(|Too many authentication failures"),
        "{host} does not know the key of {user}",
        "The server was reached, and admits none of the keys that were offered: no key is "
        "registered there for this user, or another one.",
        "Register {key} at {host}",
        "git@github.com: Permission denied (publickey).",
        at_github="fleet_git_keys with register: user (or deploy) does that, which needs "
        "GITHUB_TOKEN",
    ),
    Cause(
        "git_no_password",
        re.compile(
            r"Authentication failed for|could not read (?:Username|Password)|terminal prompts "
            r"disabled|Invalid username or (?:password|token)"
        ),
        "{host} wants a password over https, or there is no such repository",
        "Over https a private repository asks for a token. Some servers ask, too, when there is no "
        "such repository.",
        "Write the address for ssh (git@{host}:OWNER/NAME.git) and declare a key for {user} in "
        "fleet_git_keys; a public one needs no password, look at its address",
        "fatal: Authentication failed for 'https://github.com/lab/private/'",
    ),
    Cause(
        "git_no_such_version",
        re.compile(r"couldn't find remote ref|there is no branch or tag|not our ref"),
        "there is no such branch, tag or commit",
        "The repository was read, and it has no version of this name.",
        "Correct version, or push it; of a commit write the whole id",
        "there is no branch or tag add/slt-2",
    ),
    Cause(
        "git_unreachable",
        re.compile(
            r"Connection (?:refused|timed out|reset|closed)|timed out|No route to host|Network is "
            r"unreachable|Failed to connect|Temporary failure|returned error: 5\d\d",
            re.IGNORECASE,
        ),
        "{host} does not answer",
        "The name is known, and nothing answers at the address, or the server is in trouble.",
        "Look at the machine's way out (an external address or Cloud NAT, a firewall), or try "
        "again later",
        "ssh: connect to host github.com port 22: Connection timed out",
        again=True,
    ),
)
_REMOTE = re.compile(r"^(?:[a-z+]+://)?(?:[^@/]*@)?(?P<host>\[[^\]]+\]|[^:/]+)[:/]")
# What git says after every failure, whatever the reason.
_EMPTY = re.compile(
    r"Could not read from remote repository|Please make sure you have the correct access rights|"
    r"^and the repository exists"
)
_SECRET = re.compile(r"(?<=://)[^/@\s]*@")


def cause_of(said: str) -> Cause | None:
    """Return the cause of git's output, or None if it is unknown."""
    return next((cause for cause in CAUSES if cause.pattern.search(said)), None)


def host_of(url: str) -> str:
    """Return the server in the URL of a repository; empty if it is a path."""
    match = _REMOTE.match(url)
    return "" if match is None or url.startswith(("/", "file:")) else match["host"].strip("[]")


def explain(said: str, url: str, user: str, keys: Sequence[str] = ()) -> str:
    """Return cause, remedy and git's own message, all safe to display."""
    lines = [line for line in said.splitlines() if line.strip(" @\r")]
    cause = cause_of(said)
    if cause is None:
        own = " ".join([line for line in lines if not _EMPTY.search(line)][-3:])
        words = _SECRET.sub("", shown(own, 300)) or "nothing"
        return f"git cannot read {_address(url)} as {user}. git says: {words}"
    host = shown(host_of(url), 120) or "this machine"
    no_key = f"the public half of a key that fleet_git_keys declares for {user}"
    about = {
        "host": host,
        "user": user,
        "key": f"{keys[0]}.pub" if keys else no_key,
    }
    own = next((line for line in lines if cause.pattern.search(line)), "")
    remedies = [cause.remedy, *([cause.at_github] if cause.at_github and "github" in host else [])]
    return (
        f"git cannot read {_address(url)} as {user}: {cause.short.format_map(about)}. "
        f"{'. '.join(remedies).format_map(about)}. git says: {_SECRET.sub('', shown(own, 300))}"
    )


def _address(url: str) -> str:
    return _SECRET.sub("", shown(url, 200))
