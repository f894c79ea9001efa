# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wish for a host, and the decision what to apply. Pure: reads and writes nothing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Container, Dict, Iterable, List, Mapping, Optional, Sequence


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, the same for equal values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def given_of(
    roles: Iterable[str],
    uses: Mapping[str, Iterable[str]],
    values: Mapping[str, Any],
    snapshots: Mapping[str, Mapping[str, str]],
) -> Dict[str, str]:
    """Return for each role a hash of what it uses: variables, and files sent for it."""
    return {
        role: digest(
            [
                {name: values[name] for name in uses[role] if name in values and counts(name)},
                described(snapshots.get(role, {})),
            ]
        )
        for role in roles
    }


def described(files: Mapping[str, str]) -> Dict[str, str]:
    """Return the files without the archives that a description names by the hash of their content.

    The same content may be packed in several ways: here, and on the controller.
    """
    return {
        name: content
        for name, content in files.items()
        if not name.endswith(ARCHIVE) or name[: -len(ARCHIVE)] + DESCRIPTION not in files
    }


def parts_of(
    roles: Iterable[str],
    uses: Mapping[str, Iterable[str]],
    values: Mapping[str, Any],
    snapshots: Mapping[str, Mapping[str, str]],
) -> Dict[str, Dict[str, str]]:
    """Return for each role a hash of each variable that it uses, and of the files sent for it."""
    hashes = {name: digest(value) for name, value in values.items()}
    return {
        role: {
            **{name: hashes[name] for name in uses[role] if name in hashes and counts(name)},
            **({FILES: digest(described(snapshots[role]))} if role in snapshots else {}),
        }
        for role in roles
    }


def counts(name: str) -> bool:
    """Return whether another value of a variable is a reason to apply the roles that use it."""
    # Only a machine on which a run is new reads it, and there the runs have changed too.
    return name != "training_run_stopped"


# Variables that a controller makes of a secret in its state folder, with the name of the file.
_MADE_OF = {"training_run_keys": "gang_secret", "fleet_ray_generated_token": "ray_token"}
# Under the name of the fleet file, and under the role's own.
_RUNS = frozenset({"fleet_runs", "training_run_runs"})
# The ends of the two files of a snapshot.
ARCHIVE, DESCRIPTION = ".tar.gz", ".json"
# Stands for the files that are sent for a role, among the variables that it uses.
FILES = "its files"
# What the workers of a slice must agree on: a registered result, by the role whose task has it. The
# first worker of a slice finds it out for all.
SHARED = {"code_checkout": "__code_checkout_looked", "python_env": "__python_env_prepared"}


# The `who` of a request without a controller.
AT_BOOT = "this machine, at boot"


@dataclass(frozen=True)
class Wish:
    """One request for one host."""

    host: str
    # In the order in which they are applied.
    roles: Sequence[str]
    # Names of files in the store: the collection, this host's variables, its secrets.
    code: str
    variables: str
    secrets: str
    # The wanted ansible-core, and where it comes from.
    environment: Mapping[str, Any]
    # Further files of a role: their hashes, by their names in the role's folder of snapshots.
    snapshots: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Roles that are applied each time, because they follow something outside of the fleet file.
    always: Sequence[str] = ()
    # Roles without a declaration; one that was never applied has nothing to do.
    undeclared: Sequence[str] = ()
    # For a role, the earlier ones that it depends on: it is applied whenever they are.
    after: Mapping[str, Sequence[str]] = field(default_factory=dict)
    check: bool = False
    diff: bool = False
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    # Apply all roles, whether or not anything has changed.
    forced: bool = False
    # Packages that roles install, as far as they are known before variables are evaluated.
    packages: Sequence[str] = ()
    # How often the host checks itself, as systemd writes times: 1h. Empty: never.
    every: str = ""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Wish:
        """Return the wish that a controller has sent; a later version may send more fields."""
        return cls(**{part.name: data[part.name] for part in fields(cls) if part.name in data})

    def without(self, roles: Iterable[str]) -> Wish:
        """Return the wish for the other roles."""
        left = [name for name in self.roles if name not in set(roles)]
        snapshots = {role: files for role, files in self.snapshots.items() if role in left}
        return replace(self, roles=left, snapshots=snapshots)

    @property
    def files(self) -> List[str]:
        """Return the names of the files that must be in the store."""
        named = [self.code, self.variables, self.secrets]
        for files in self.snapshots.values():
            named += files.values()
        return [name for name in named if name]

    @property
    def whole(self) -> bool:
        """Return whether all tasks of the roles are applied."""
        return not (self.check or self.tags or self.skip_tags)


@dataclass(frozen=True)
class Applied:
    """How a role was last applied."""

    given: str
    """Hash of the values that it used."""
    status: str
    """ok, or the reason to apply it again, in words."""


@dataclass(frozen=True)
class Known:
    """The host's record of applied roles."""

    boot_id: str = ""
    code: str = ""
    environment: str = ""
    roles: Mapping[str, Applied] = field(default_factory=dict)
    # For a role, the others that it depends on, as the last wish for it said.
    after: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # For a role, a hash of each variable that it used when it was last applied.
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, data: Optional[Mapping[str, Any]]) -> Known:
        """Return the record from JSON data; an empty one without data."""
        if not data:
            return cls()
        roles = {name: Applied(**role) for name, role in data["roles"].items()}
        more = {name: data.get(name, {}) for name in ("after", "parts")}
        return cls(data["boot_id"], data["code"], data["environment"], roles, **more)

    def record(self) -> Dict[str, Any]:
        """Return the record as JSON data."""
        return asdict(self)

    def with_status(self, names: Iterable[str], given: Mapping[str, str], status: str) -> Known:
        """Return the record with another status for some roles."""
        told = {
            name: Applied(
                given.get(name, self.roles[name].given if name in self.roles else ""), status
            )
            for name in names
        }
        return replace(self, roles={**self.roles, **told})

    def depending_on(self, names: Sequence[str]) -> Dict[str, str]:
        """Return the applied roles besides these that depend on one of them, each with that one."""
        found = {}
        for role, record in self.roles.items():
            before = [name for name in self.after.get(role, ()) if name in names]
            if before and role not in names and record.status == "ok":
                found[role] = before[0]
        return found


@dataclass(frozen=True)
class Todo:
    """The roles to apply, or none, and the reasons."""

    roles: Sequence[str]
    reasons: Sequence[str]
    # Whether roles that are not asked for may have to be applied again, too.
    unsure: bool = False


def todo(
    wish: Wish,
    known: Known,
    given: Mapping[str, str],
    boot_id: str,
    drift: Sequence[str],
    noted: Container[str] = (),
    parts: Optional[Mapping[str, Mapping[str, str]]] = None,
) -> Todo:
    """Return which roles to apply. `given` has for each role the hash of its present values.

    `noted` are the roles that have written to the state file, for any caller. `parts` has for
    each role the hash of each variable.
    """
    never = {name for name in wish.undeclared if name not in known.roles and name not in noted}
    wanted = [name for name in wish.roles if wish.forced or name not in never]
    if wish.tags or wish.skip_tags:
        return Todo(wanted, ["--tags names a part of them"])
    reasons = []
    if known.boot_id and known.boot_id != boot_id:
        reasons.append("the host was rebooted")
    if known.code and known.code != wish.code:
        reasons.append("the collection has changed")
    if known.environment and known.environment != digest(wish.environment):
        reasons.append("another ansible-core is wanted")
    if any(role.status == "ok" for role in known.roles.values()):
        reasons += drift
    if reasons:
        return Todo(wanted, reasons, unsure=True)
    if wish.forced:
        return Todo(wanted, ["asked for, whatever has changed"])
    why: Dict[str, str] = {}
    for name in wanted:
        reason = _reason(wish, known, name, given[name], (parts or {}).get(name, {}))
        before = [role for role in wish.after.get(name, ()) if why.get(role)]
        why[name] = reason or (f"it depends on {before[0]}" if before else "")
    roles = [name for name in wanted if why[name]]
    if roles == wanted and len(set(why.values())) == 1:
        reasons = [f"all roles: {why[roles[0]]}"] if roles else []
    else:
        reasons = [f"{name}: {why[name]}" for name in roles]
    return Todo(roles, reasons)


def _reason(wish: Wish, known: Known, role: str, given: str, parts: Mapping[str, str]) -> str:
    """Return why a role must be applied; empty if nothing has changed."""
    before = known.roles.get(role)
    if before is None:
        return "it was never applied"
    if before.status != "ok":
        return before.status
    if before.given != given:
        changed = differing(known.parts.get(role), parts)
        return f"{', '.join(changed) or 'its values'} changed{_of_which_computer(changed)}"
    if role in wish.always:
        return "what it follows may have moved"
    return ""


def _of_which_computer(changed: Sequence[str]) -> str:
    """Explain a change of what each controller makes of a file in its own state folder."""
    # Another list of runs has other keys by itself.
    made = [] if _RUNS & set(changed) else [_MADE_OF[name] for name in changed if name in _MADE_OF]
    if not made:
        return ""
    files = " and ".join(made)
    return (
        f", as this computer has another {files} than the one that applied before: copy the file "
        "from that one's state folder into this one's"
    )


def differing(before: Optional[Mapping[str, str]], now: Mapping[str, str]) -> List[str]:
    """Return the names of the variables that differ, at most three; none without a record."""
    if before is None:
        return []
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return names if len(names) <= 3 else [*names[:3], f"and {len(names) - 3} more"]
