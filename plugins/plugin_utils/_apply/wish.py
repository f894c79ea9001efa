# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn a host's variables into what it is sent: a wish, and the files for it. No I/O."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._apply_agent.wish import given_of
from ...module_utils._host.pinned import ENGINES
from ...module_utils._roles.host_base.rules import PACKAGE
from ...module_utils._schema.names import either, own_name
from ...module_utils._schema.values import COMMIT
from .._roles.specs import options_of
from .variables import strings

# The ansible-core that applies the roles, by the oldest Python that runs it; a machine uses the one
# for its own Python.
ENVIRONMENT: dict[str, Any] = {"pinned": {line: list(pins) for line, pins in ENGINES.items()}}
# A role whose variables here are all unset, and that was never applied, would change nothing. Other
# roles are always applied: git_access, for example, installs the host keys of GitHub and GitLab.
DECLARED_BY = {
    "data_disk": ["data_disk_disks", "data_disk_attached", "tpu_vm_data_disks"],
    "nfs_share": ["nfs_share_shares"],
    "bucket_mount": ["bucket_mount_buckets"],
    "code_checkout": ["code_checkout_trees"],
    "dataset": ["dataset_datasets"],
    "notebook_server": ["notebook_server_notebooks"],
    "tensorboard_server": ["tensorboard_server_boards"],
    "tpu_metrics": ["tpu_metrics_enabled"],
    "ray_cluster": ["ray_cluster_head"],
    "run_queue": ["run_queue_queue", "fleet_queue"],
}
# The variables with names of packages for every machine, by the role that installs them.
PACKAGES = {
    "host_base": ("host_base_packages", "host_base_extra_packages"),
    "user_shell": ("user_shell_packages",),
}
# Tags with a special meaning in Ansible.
_SEVERAL = frozenset({"all", "always", "never", "tagged", "untagged"})
# Ansible's own variables; the host's Ansible sets them itself.
_MAGIC = ("ansible_", "hostvars", "groups", "group_names", "inventory_", "playbook_dir", "role_")
_MAGIC_NAMES = ("environment", "omit", "play_hosts", "vars")


@dataclass(frozen=True)
class Order:
    """The wish for a host, and the files that it may ask for."""

    host: str
    slice: str
    wish: dict[str, Any]
    files: dict[str, bytes]
    # A hash of the values that each role uses.
    given: dict[str, str] = field(default_factory=dict)
    # The address at which its peers reach it.
    address: str = ""


@dataclass(frozen=True)
class Common:
    """What is the same for all hosts of one call."""

    roles: Sequence[str]
    code: bytes
    # Variables of roles that have secrets.
    secret: frozenset[str]
    # The archives of code that hosts get from the controller: content by file name.
    snapshots: Mapping[str, bytes] = field(default_factory=dict)
    check: bool = False
    diff: bool = False
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    forced: bool = False
    every: str = ""

    @functools.cached_property
    def code_hash(self) -> str:
        """Return the hash of the code, computed once for all hosts."""
        return _sha(self.code)

    @functools.cached_property
    def archive_hashes(self) -> dict[str, str]:
        """Return the hash of each archive of code, computed once for all hosts."""
        return {name: _sha(data) for name, data in self.snapshots.items()}

    @property
    def files(self) -> dict[str, bytes]:
        """Return the files that any host may ask for, by their hash."""
        archives = {self.archive_hashes[name]: data for name, data in self.snapshots.items()}
        return {self.code_hash: self.code, **archives}


@dataclass(frozen=True)
class Given:
    """The variables of one host, as JSON values."""

    templates: dict[str, Any]
    plain: dict[str, Any]
    # The variables that each role uses.
    uses: Mapping[str, Sequence[str]]


def is_ours(name: str) -> bool:
    """Return whether a variable is one that a user has declared."""
    return not name.startswith(_MAGIC) and name not in _MAGIC_NAMES


def simple(value: Any) -> Any:
    """Return a value as plain JSON; encrypted values are decrypted."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): simple(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [simple(part) for part in value]
    return str(value)


def is_plain(value: Any, trusted: Callable[[str], bool]) -> bool:
    """Return whether Ansible would take no part of a value for a template."""
    return any("{" in text and not trusted(text) for text in strings(value))


def secrets_of(secret: Iterable[str], given: Given) -> set[str]:
    """Return the variables with secrets: those that roles name, and those that use them."""
    found = {name for name in (*given.templates, *given.plain) if name in secret}
    while True:
        words = {
            word
            for name in found & set(given.templates)
            for text in strings(given.templates[name])
            if "{{" in text
            for word in re.findall(r"\w+", text)
        }
        more = {name for name in words if name in given.templates or name in given.plain} - found
        if not more:
            return found
        found |= more


def after_of(roles: Sequence[str], uses: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return for each role the earlier ones that it depends on, because it uses their variables."""
    found = {}
    for number, role in enumerate(roles):
        names = uses.get(role, ())
        own = [own_name(name) for name in names]
        before = [
            other for other in roles[:number] if any(name.startswith(f"{other}_") for name in own)
        ]
        if before:
            found[role] = before
    return found


def undeclared(roles: Iterable[str], variables: Mapping[str, Any]) -> list[str]:
    """Return the roles without a declaration. A template counts as one, whatever its value."""
    return [
        role
        for role in roles
        if role in DECLARED_BY and not any(either(variables, name) for name in DECLARED_BY[role])
    ]


def packages_of(roles: Iterable[str], variables: Mapping[str, Any]) -> list[str]:
    """Return the packages that roles install, without those that are templates."""
    found: list[str] = []
    for role in roles:
        for name in PACKAGES.get(role, ()):
            declared = either(variables, name, options_of(role)[name]["default"])
            found += declared if isinstance(declared, list) else []
    return [one for one in dict.fromkeys(found) if isinstance(one, str) and PACKAGE.fullmatch(one)]


def follows_elsewhere(trees: Any) -> bool:
    """Return whether a code tree can change while its declaration stays the same.

    Branches and tags of repositories can; whole hashes of commits cannot.
    """
    return any(
        isinstance(tree, Mapping)
        and tree.get("repo")
        and not COMMIT.fullmatch(str(tree.get("version", "")))
        for tree in trees or ()
    )


def order(host: str, given: Given, tools: Mapping[str, Any], common: Common) -> Order:
    """Return what one host is sent."""
    secret = secrets_of(common.secret, given)
    shown, hidden = (
        {
            "host": host,
            "templates": {n: v for n, v in given.templates.items() if (n in secret) is wanted},
            "plain": {n: v for n, v in given.plain.items() if (n in secret) is wanted},
        }
        for wanted in (False, True)
    )
    uses = {role: list(given.uses.get(role, ())) for role in common.roles}
    variables = _dump({**shown, "uses": uses})
    secrets = _dump({**hidden, "tools": dict(tools)})
    everything = {**given.templates, **given.plain}
    snapshots = {"code_checkout": common.archive_hashes} if "code_checkout" in common.roles else {}
    wish = {
        "host": host,
        "roles": list(common.roles),
        "code": common.code_hash,
        "variables": _sha(variables),
        "secrets": _sha(secrets),
        "environment": ENVIRONMENT,
        "snapshots": snapshots,
        "always": ["code_checkout"]
        if follows_elsewhere(either(everything, "code_checkout_trees"))
        else [],
        "undeclared": undeclared(common.roles, everything),
        "after": after_of(common.roles, uses),
        "check": common.check,
        "diff": common.diff,
        "tags": list(common.tags),
        "skip_tags": list(common.skip_tags),
        "forced": common.forced,
        "packages": packages_of(common.roles, everything),
        "every": common.every,
    }
    slice_name = str(everything.get("tpu_vm_name") or host)
    return Order(
        host,
        slice_name,
        wish,
        {**common.files, **{_sha(data): data for data in (variables, secrets)}},
        given_of(common.roles, uses, everything, snapshots),
    )


def roles_asked_for(roles: Sequence[str], tags: Sequence[str]) -> list[str]:
    """Return the roles that the tags select: all tags of a role begin with its name."""
    if not tags:
        return list(roles)
    return [role for role in roles if any(_is_of(tag, role) for tag in tags)]


def parts_of(roles: Sequence[str], tags: Iterable[str]) -> list[str]:
    """Return the tags with which a machine applies parts of these roles; none for whole roles."""
    found = [tag for tag in tags if any(_is_of(tag, role) for role in roles)]
    return found if set(found) - set(roles) else []


def without(roles: Sequence[str], tags: Iterable[str]) -> list[str]:
    """Return the roles that the skipped tags do not name."""
    skipped = set(tags)
    return [role for role in roles if role not in skipped]


def skips_of(roles: Sequence[str], tags: Iterable[str]) -> list[str]:
    """Return the tags whose tasks these roles skip; other tags may belong to the play."""
    return [tag for tag in tags if tag in _SEVERAL or any(_is_of(tag, role) for role in roles)]


def not_applied(tags: Iterable[str], applied: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the roles that tags name, and that are not among those which a playbook applies."""
    others = [role for role in known if role not in applied]
    return [role for role in others if any(_is_of(tag, role) for tag in tags)]


def _is_of(tag: str, role: str) -> bool:
    return f"{tag}_".startswith(f"{role}_")


def _dump(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True).encode()


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
