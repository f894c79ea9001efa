# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is asked to be, and what has to be done for it. Pure: nothing is read or written."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Container, Dict, Iterable, List, Mapping, Optional, Sequence


def digest(value: Any) -> str:
    """Return the SHA-256 of something that JSON can hold, the same for equal values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def given_of(
    roles: Iterable[str],
    uses: Mapping[str, Iterable[str]],
    values: Mapping[str, Any],
    snapshots: Mapping[str, Mapping[str, str]],
) -> Dict[str, str]:
    """Return a hash for each role of all that it is given: variables, and files sent for it."""
    return {
        role: digest(
            [
                {name: values[name] for name in uses[role] if name in values},
                dict(snapshots.get(role, {})),
            ]
        )
        for role in roles
    }


# What workers of one slice must agree on: a task's registered result, by the role that has it. The
# first worker of a slice finds it out for all.
SHARED = {"code_checkout": "__code_checkout_looked", "python_env": "__python_env_prepared"}


# Who asks where no controller does.
AT_BOOT = "this machine, at boot"


@dataclass(frozen=True)
class Wish:
    """One request of a controller."""

    host: str
    # In their order.
    roles: Sequence[str]
    # Names of files in the store: the collection, the variables of this host, its secrets.
    code: str
    variables: str
    secrets: str
    # What ansible-core to use, and where it comes from.
    environment: Mapping[str, Any]
    # Further files of a role: their hashes, by what they are called in its folder of snapshots.
    snapshots: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Roles that have something to do each time: what they follow is elsewhere.
    always: Sequence[str] = ()
    # Roles for which nothing is declared: where such a one never was applied, it has nothing to do.
    undeclared: Sequence[str] = ()
    # Of a role those before it on which it depends: when they have something to do, so has it.
    after: Mapping[str, Sequence[str]] = field(default_factory=dict)
    check: bool = False
    diff: bool = False
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    # Apply all roles, whatever is known.
    forced: bool = False
    # Packages that roles install, as far as it can be said before variables are evaluated.
    packages: Sequence[str] = ()
    # How often the host looks by itself whether it is still so, as systemd writes times: 1h.
    every: str = ""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Wish:
        """Read one as the controller sends it; one of a later version may have more to say."""
        return cls(**{part.name: data[part.name] for part in fields(cls) if part.name in data})

    @property
    def files(self) -> List[str]:
        """Name what must be in the store."""
        named = [self.code, self.wheels, self.variables, self.secrets]
        for files in self.snapshots.values():
            named += files.values()
        return [name for name in named if name]

    @property
    def wheels(self) -> str:
        """Name the packages that were sent for ansible-core; nothing where an index has them."""
        return str(self.environment.get("wheels", ""))

    @property
    def common(self) -> List[str]:
        """Name what is large and the same on all workers of a slice."""
        return [name for name in (self.code, self.wheels) if name]

    @property
    def whole(self) -> bool:
        """Tell whether the roles are applied as a whole."""
        return not (self.check or self.tags or self.skip_tags)


@dataclass(frozen=True)
class Applied:
    """How a role was applied the last time."""

    given: str
    """Hash of the values that it was given."""
    status: str
    """ok, or what makes it to be applied again, in words."""


@dataclass(frozen=True)
class Known:
    """What the host remembers."""

    boot_id: str = ""
    code: str = ""
    environment: str = ""
    roles: Mapping[str, Applied] = field(default_factory=dict)

    @classmethod
    def read(cls, data: Optional[Mapping[str, Any]]) -> Known:
        """Read it from the host's record; nothing is known without one."""
        if not data:
            return cls()
        roles = {name: Applied(**role) for name, role in data["roles"].items()}
        return cls(data["boot_id"], data["code"], data["environment"], roles)

    def record(self) -> Dict[str, Any]:
        """Return what is written down."""
        return asdict(self)

    def with_status(self, names: Iterable[str], given: Mapping[str, str], status: str) -> Known:
        """Return it with another status of some roles."""
        told = {
            name: Applied(
                given.get(name, self.roles[name].given if name in self.roles else ""), status
            )
            for name in names
        }
        return replace(self, roles={**self.roles, **told})


@dataclass(frozen=True)
class Todo:
    """What to do: a run of Ansible with these roles, or nothing; and why."""

    roles: Sequence[str]
    reasons: Sequence[str]
    # Nothing that was applied is sure any more, also of roles that are not asked for.
    unsure: bool = False


def todo(
    wish: Wish,
    known: Known,
    given: Mapping[str, str],
    boot_id: str,
    drift: Sequence[str],
    noted: Container[str] = (),
) -> Todo:
    """Decide what to do. `given` has the hash of what each role is given now.

    `noted` are the roles that have noted down something here themselves, whoever applied them.
    """
    never = {name for name in wish.undeclared if name not in known.roles and name not in noted}
    wanted = [name for name in wish.roles if wish.forced or name not in never]
    if not wish.whole:
        return Todo(wanted, ["asked for a part, or only to look"])
    reasons = []
    if known.boot_id and known.boot_id != boot_id:
        reasons.append("the host was started anew")
    if known.code and known.code != wish.code:
        reasons.append("the collection is another version")
    if known.environment and known.environment != digest(wish.environment):
        reasons.append("another ansible-core is asked for")
    if any(role.status == "ok" for role in known.roles.values()):
        reasons += drift
    if reasons:
        return Todo(wanted, reasons, unsure=True)
    if wish.forced:
        return Todo(wanted, ["asked to apply everything"])
    why: Dict[str, str] = {}
    for name in wanted:
        reason = _reason(wish, known, name, given[name])
        before = [role for role in wish.after.get(name, ()) if why.get(role)]
        why[name] = reason or (f"it depends on {before[0]}" if before else "")
    roles = [name for name in wanted if why[name]]
    if roles == wanted and len(set(why.values())) == 1:
        reasons = [f"all roles: {why[roles[0]]}"] if roles else []
    else:
        reasons = [f"{name}: {why[name]}" for name in roles]
    return Todo(roles, reasons)


def _reason(wish: Wish, known: Known, role: str, given: str) -> str:
    """Say why a role is to be applied; nothing where it is as it was."""
    before = known.roles.get(role)
    if before is None:
        return "it was never applied"
    if before.status != "ok":
        return before.status
    if before.given != given:
        return "it is given other values"
    if role in wish.always:
        return "what it follows may have moved"
    return ""
