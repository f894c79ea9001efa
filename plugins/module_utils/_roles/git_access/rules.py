# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the git keys, identities and servers of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._schema import values as rules
from ..._schema.keys import Problem, did_you_mean, duplicates, entries, text_of, texts_of
from ..._schema.refs import hides_a_name, known, known_slices, known_user, names_of, user_remedy
from .servers import PUBLIC_HOSTS

KEYS, IDENTITIES, HOSTS = "fleet_git_keys", "fleet_git_identities", "fleet_git_hosts"
REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
SETTING = re.compile(r"[A-Za-z][A-Za-z0-9-]*\.([^\n]*\.)?[A-Za-z][A-Za-z0-9-]*")


def check_git_access(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of keys, identities and servers."""
    problems = duplicates(data, KEYS, "name", "Give each key a different name")
    for field, entry in entries(data, KEYS):
        problems += _check_key(data, field, entry)
    problems += duplicates(data, IDENTITIES, "user", "Write one entry for each user")
    for field, entry in entries(data, IDENTITIES):
        problems += _check_identity(data, field, entry)
    problems += duplicates(data, HOSTS, "name", "Write one entry for each server")
    for field, entry in entries(data, HOSTS):
        problems += _check_host(field, entry)
    return problems


def _check_key(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    problems = []
    name = text_of(entry, "name")
    if name and not rules.DEPLOY_KEY_NAME.fullmatch(name):
        remedy = "Use a-z, 0-9, - and _, at most 32 characters, because it is part of a file name"
        problems.append(Problem(f"{field}.name", name, "is not a name for a key", remedy))
    for index, user in texts_of(entry, "users"):
        if not rules.USER_NAME.fullmatch(user):
            problems.append(_no_login(f"{field}.users[{index}]", user))
        elif user not in {"root", text_of(data, "fleet_ssh_user")}:
            problems += known(data, f"{field}.users[{index}]", user, "user", "fleet_users")
    problems += known_slices(data, field, entry)
    shared = entry.get("source") == "shared"
    if shared and not entry.get("private_key"):
        remedy = "Set it from a vault, or remove source: the machines generate keys themselves"
        problems.append(Problem(f"{field}.private_key", None, "is missing", remedy))
    if entry.get("private_key") and not shared:
        remedy = "Set source: shared, or remove private_key"
        problems.append(
            Problem(f"{field}.source", entry.get("source"), "does not use private_key", remedy)
        )
    private = text_of(entry, "private_key")
    if private and "PRIVATE KEY" not in private:
        remedy = "Set it to the whole text of the file, with its BEGIN line"
        problems.append(Problem(f"{field}.private_key", None, "is not a private key", remedy))
    deploy, repository = entry.get("register") == "deploy", text_of(entry, "repository")
    if deploy and not (repository and REPOSITORY.fullmatch(repository)):
        remedy = "Write OWNER/NAME, because a deploy key opens one repository"
        problems.append(Problem(f"{field}.repository", repository, "is not a repository", remedy))
    if repository and not deploy:
        remedy = "Set register: deploy, or remove repository"
        problems.append(
            Problem(f"{field}.repository", repository, "needs register: deploy", remedy)
        )
    host = text_of(entry, "host")
    hosts = [*PUBLIC_HOSTS, *names_of(data, HOSTS)]
    if host and host not in hosts and not hides_a_name(data.get(HOSTS)):
        remedy = did_you_mean(host, hosts, f"Declare it in {HOSTS}, with its host keys")
        problems.append(Problem(f"{field}.host", host, "is not a known git server", remedy))
    return problems


def _check_identity(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    user = text_of(entry, "user")
    if user and not rules.USER_NAME.fullmatch(user):
        problems = [_no_login(f"{field}.user", user)]
    else:
        problems = known_user(data, field, entry, "user")
    problems += known_slices(data, field, entry)
    for key in ("name", "email"):
        value = text_of(entry, key)
        if value and ("\n" in value or "<" in value or ">" in value):
            remedy = "Write it in one line, without < and >"
            problems.append(Problem(f"{field}.{key}", value, "cannot be used in a commit", remedy))
    config = entry.get("config")
    for key in config if isinstance(config, Mapping) else ():
        if not isinstance(key, str) or not SETTING.fullmatch(key):
            remedy = "Write it as git config does, for example pull.rebase"
            problems.append(Problem(f"{field}.config.{key}", None, "is not a setting", remedy))
    for index, folder in texts_of(entry, "safe_directories"):
        if folder != "*" and not folder.startswith("/"):
            where = f"{field}.safe_directories[{index}]"
            problems.append(Problem(where, folder, "is not a whole path", "Begin it with /"))
    return problems


def _no_login(field: str, name: str) -> Problem:
    return Problem(field, name, "is not a user name that Linux takes", user_remedy(name))


def _check_host(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for key in ("name", "hostname"):
        value = text_of(entry, key)
        if value and not HOST_NAME.fullmatch(value):
            remedy = "Write a name or an IPv4 address; set the port with its own key"
            problems.append(Problem(f"{field}.{key}", value, "is not a host", remedy))
    port = entry.get("port")
    if isinstance(port, int) and not 1 <= port <= 65535:
        problems.append(Problem(f"{field}.port", port, "is not a port", "Use 1 to 65535"))
    keys = texts_of(entry, "keys")
    if not keys and isinstance(entry.get("keys"), list):
        remedy = "Set at least one, from a source that you trust"
        problems.append(Problem(f"{field}.keys", None, "has no host key", remedy))
    for index, key in keys:
        message = rules.public_key(key)
        if message:
            remedy = "Write type and key: ssh-ed25519 AAAA…"
            shown = None if "PRIVATE" in key else key
            problems.append(Problem(f"{field}.keys[{index}]", shown, message, remedy))
    return problems
