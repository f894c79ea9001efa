# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is asked to be, and what has to be done for it. Pure: nothing is read or written."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence


def digest(value: Any) -> str:
    """Return the SHA-256 of something that JSON can hold, the same for equal values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Wish:
    """One request of a controller."""

    host: str
    # Names of files in the store: the collection; the variables of all hosts of the slice; secrets.
    code: str
    variables: str
    secrets: str
    # What ansible-core to use, and where it comes from.
    environment: Mapping[str, Any]
    check: bool = False
    diff: bool = False
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    # Apply all roles, whatever is known.
    forced: bool = False

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Wish:
        """Read one as the controller sends it."""
        return cls(**data)

    @property
    def files(self) -> List[str]:
        """Name what must be in the store."""
        return [name for name in (self.code, self.variables, self.secrets) if name]

    @property
    def whole(self) -> bool:
        """Tell whether the host is as declared after it."""
        return not (self.check or self.tags or self.skip_tags)


@dataclass(frozen=True)
class Known:
    """What the host remembers of the last time that all was applied."""

    status: str = ""
    boot_id: str = ""
    code: str = ""
    environment: str = ""
    # Hash of what each role was given.
    roles: Mapping[str, str] = ()  # type: ignore[assignment]

    @classmethod
    def read(cls, data: Optional[Mapping[str, Any]]) -> Known:
        """Read it from the host's record; nothing is known without one."""
        if not data:
            return cls(roles={})
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    def record(self) -> Dict[str, Any]:
        """Return what is written down."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Todo:
    """What to do: nothing, or a run of Ansible with these roles, and why."""

    run: bool
    # All roles where it is empty.
    roles: Sequence[str]
    reasons: Sequence[str]


def todo(
    wish: Wish,
    known: Known,
    roles: Mapping[str, str],
    boot_id: str,
    drift: Sequence[str],
) -> Todo:
    """Decide what to do. `roles` has the hash of what each role is given now, in their order."""
    if wish.check or wish.tags or wish.skip_tags:
        return Todo(True, (), ["asked for a part, or only to look"])
    reasons = _reasons(wish, known, roles, boot_id, drift)
    if reasons:
        return Todo(True, (), reasons)
    changed = [name for name, given in roles.items() if known.roles[name] != given]
    if changed:
        return Todo(True, changed, [f"{name} is given other values" for name in changed])
    return Todo(False, (), ())


def _reasons(
    wish: Wish, known: Known, roles: Mapping[str, str], boot_id: str, drift: Sequence[str]
) -> List[str]:
    """Say why everything is to be applied; nothing where only single roles may be concerned."""
    if not known.status:
        return ["it was never applied"]
    if known.status != "ok":
        return [f"the last time ended as {known.status}"]
    reasons = []
    if wish.forced:
        reasons.append("asked to apply everything")
    if known.boot_id != boot_id:
        reasons.append("the host was started anew")
    if known.code != wish.code:
        reasons.append("the collection is another version")
    if known.environment != digest(wish.environment):
        reasons.append("another ansible-core is asked for")
    if set(known.roles) != set(roles):
        reasons.append("other roles are applied")
    return [*reasons, *drift]
