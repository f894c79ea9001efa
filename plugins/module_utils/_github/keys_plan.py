# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which keys to add, remove or keep at GitHub. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Wanted:
    """A key to register, and its user."""

    title: str
    material: str
    """Type and key without a comment."""
    register: str
    repository: str
    read_only: bool
    name: str
    slice_name: str = ""
    user: str = ""
    """Empty for a key of all users of a machine, or of a fleet."""

    @property
    def place(self) -> str:
        """Return where it is registered, as GitHub's path."""
        return place_of(self.register, self.repository)


@dataclass(frozen=True)
class Recorded:
    """A key that this fleet registered."""

    id: int
    title: str
    material: str
    register: str
    repository: str
    name: str
    slice_name: str = ""
    user: str = ""

    @property
    def place(self) -> str:
        """Return where it is registered, as GitHub's path."""
        return place_of(self.register, self.repository)

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Recorded:
        """Read what to_dict wrote."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Action:
    """One step: add, remove, or forget (a key that is already gone)."""

    kind: str
    place: str
    title: str
    why: str
    wanted: Wanted | None = None
    id: int = 0


def place_of(register: str, repository: str) -> str:
    """Return GitHub's path to a list of keys."""
    return "/user/keys" if register == "user" else f"/repos/{repository}/keys"


def prefix_of(fleet: str) -> str:
    """Return the prefix of the titles of a fleet's keys."""
    return f"tpu-fleet {fleet}: "


def material_of(key: str) -> str:
    """Return the identity of a key: type and base64."""
    return " ".join(key.split()[:2])


def wanted_keys(
    fleet: str,
    declared: Iterable[Mapping[str, Any]],
    hosts: Iterable[Mapping[str, Any]],
    people: Sequence[Mapping[str, Any]] = (),
) -> list[Wanted]:
    """Return the hosts' keys that are declared to be registered.

    A host has: host, slice, users (as git_access.json has them). A key that several users or
    hosts share is wanted once.
    """
    by_name = {entry["name"]: entry for entry in registered(declared)}
    found: dict[tuple[str, str], Wanted] = {}
    for host in sorted(hosts, key=lambda host: str(host["host"])):
        for user, has in sorted((host.get("users") or {}).items()):
            for name, key in sorted((has.get("keys") or {}).items()):
                entry = by_name.get(name)
                if entry is None or not key.get("public"):
                    continue
                # A worker reports the users of its keys; whether they have access is decided here.
                own = list(entry.get("slices") or ()) or [str(host["slice"])]
                if user not in entry["users"] or str(host["slice"]) not in own:
                    continue
                source = entry.get("source") or "user"
                if source == "user" and not _may_use(user, str(host["slice"]), people):
                    continue
                whose = {"user": f"{user}@{host['host']} ", "machine": f"{host['host']} "}
                wanted = Wanted(
                    title=f"{prefix_of(fleet)}{whose.get(source, '')}{name}",
                    material=material_of(key["public"]),
                    register=entry["register"],
                    repository=entry.get("repository") or "",
                    read_only=bool(entry.get("read_only", True)),
                    name=name,
                    slice_name="" if source == "shared" else str(host["slice"]),
                    user=user if source == "user" else "",
                )
                found.setdefault((wanted.place, wanted.material), wanted)
    return list(found.values())


def registered(declared: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the declared keys to register."""
    return [entry for entry in declared if entry.get("register")]


def _may_use(user: str, slice_name: str, people: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a user has access to a slice; undeclared ones such as root have."""
    return all(
        person.get("state") != "absent" and slice_name in (person.get("slices") or [slice_name])
        for person in people
        if person["name"] == user
    )


def is_wanted(
    key: Recorded,
    declared: Iterable[Mapping[str, Any]],
    slices: Iterable[str],
    people: Iterable[Mapping[str, Any]] = (),
) -> bool:
    """Return whether a registered key is still declared, for a declared slice.

    A person who went, or may not use the slice any more, could have taken the key along.
    """
    slices = list(slices)
    if key.user and not _may_use(key.user, key.slice_name, people):
        return False
    for entry in registered(declared):
        if entry["name"] != key.name or entry["register"] != key.register:
            continue
        if (entry.get("repository") or "") != key.repository:
            continue
        own = list(entry.get("slices") or ()) or slices
        there = [name for name in own if name in slices]
        shared = (entry.get("source") or "user") == "shared"
        if shared:
            return bool(there) and not key.slice_name
        return key.slice_name in there and (not key.user or key.user in entry["users"])
    return False


def plan(
    wanted: Iterable[Wanted],
    recorded: Iterable[Recorded],
    stale: Iterable[Recorded],
    seen: Mapping[str, Iterable[Mapping[str, Any]]],
    fleet: str,
) -> list[Action]:
    """Return the steps, removals first: a key may move from one place to another.

    `seen` has GitHub's keys by place. Removed is only what we recorded, and what still carries
    our title and our key.
    """
    wanted, recorded = list(wanted), list(recorded)
    listed = {place: {key["id"]: key for key in keys} for place, keys in seen.items()}
    removals: list[Action] = []
    gone: set[tuple[str, int]] = set()

    def remove(key: Recorded, why: str) -> None:
        there = listed.get(key.place, {}).get(key.id)
        ours = there is not None and (
            str(there.get("title", "")).startswith(prefix_of(fleet))
            and material_of(str(there.get("key", ""))) == key.material
        )
        kind = "remove" if ours else "forget"
        gone.add((key.place, key.id))
        removals.append(Action(kind, key.place, key.title, why, id=key.id))

    for key in stale:
        remove(key, "is not declared any more")
    additions = []
    for want in wanted:
        for key in recorded:
            same = key.place == want.place and key.title == want.title
            if same and key.material != want.material and (key.place, key.id) not in gone:
                remove(key, "the machine has another key now")
        there = next(
            (
                key
                for number, key in listed.get(want.place, {}).items()
                if material_of(str(key.get("key", ""))) == want.material
                and (want.place, number) not in gone
            ),
            None,
        )
        if there is None:
            additions.append(Action("add", want.place, want.title, "is new", want))
        elif want.register == "deploy" and bool(there.get("read_only")) != want.read_only:
            mine = [k for k in recorded if k.id == there["id"] and k.place == want.place]
            if mine:
                # GitHub cannot change a key.
                remove(mine[0], "its rights change")
                additions.append(Action("add", want.place, want.title, "its rights change", want))
    return removals + additions


def after(recorded: Iterable[Recorded], actions: Iterable[Action]) -> list[Recorded]:
    """Return the record without removed keys."""
    gone = {(action.place, action.id) for action in actions if action.kind != "add"}
    return [key for key in recorded if (key.place, key.id) not in gone]
