# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices that rest: stopped or deleted because their runs have ended. Where that is recorded.

A deleted slice leaves nothing that could carry a label. So the record is in the project's metadata,
where every controller looks, and in a file on this computer for controllers that may not read or
write the metadata. If the two differ, the newer one counts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .._compute.client import Compute, values_of
from .._core.errors import PASSING, TpuError
from .._core.ownership import DEFAULT_OWNER
from .._fleet_file.declared import KEEP
from .._google.apis import GoogleApis
from .._host.state import read_text, write_atomically
from .._tpu.client import Client

KEY = "tpu-fleet-rest"
# In the state folder.
REST_FILE = "rest.json"


@dataclass(frozen=True)
class Rest:
    """Why a slice is not there, or will soon not be."""

    how: str
    mark: str
    """Hash of the runs for which it was put to rest; other runs wake it."""
    ends: str = ""
    """The ends of its runs that caused it; empty if the slice was idle."""
    why: str = ""
    at: float = 0.0
    done: bool = False
    awake: bool = False
    """Whether a user has asked for the slice since."""
    held: bool = False
    """Whether a spent budget put it to rest: then only a user wakes it."""
    by_queue: bool = False
    """Whether it is awake for submitted runs, and may rest again when none needs it."""


def marks_of(
    runs: Iterable[Mapping[str, Any]],
    slices: Iterable[Mapping[str, Any]],
    trees: Iterable[Mapping[str, Any]] = (),
) -> dict[str, str]:
    """Return a hash of the declared runs for each slice that may be put to rest.

    The hash is by scrypt, because others can read it and the runs' env may have passwords, which
    must not be found by trying.
    """
    code = {tree.get("name"): tree for tree in trees}
    found = {}
    for entry in slices:
        if (entry.get("on_finish") or KEEP) == KEEP:
            continue
        name = str(entry["name"])
        here = [run for run in runs if name in (run.get("slices") or ()) and _is_on(run)]
        plain = sorted(
            json.dumps([run, code.get(run.get("code"))], sort_keys=True, default=str)
            for run in here
        )
        text = "\n".join(plain).encode()
        found[name] = hashlib.scrypt(text, salt=name.encode(), n=2**13, r=8, p=1, dklen=16).hex()
    return found


def _is_on(run: Mapping[str, Any]) -> bool:
    return bool(run.get("enabled", True))


def to_text(known: Mapping[str, Rest]) -> str:
    """Return the record as JSON."""
    return json.dumps({name: asdict(rest) for name, rest in sorted(known.items())}, sort_keys=True)


def from_text(text: str | None) -> dict[str, Rest]:
    """Return the record in a JSON text; empty if it cannot be read."""
    found = {}
    try:
        for name, said in json.loads(text or "{}").items():
            fields = {key: said[key] for key in Rest.__dataclass_fields__ if key in said}
            found[str(name)] = Rest(**fields)
    except (ValueError, TypeError, AttributeError, KeyError):
        return {}
    return found


def newest(*books: Mapping[str, Rest]) -> dict[str, Rest]:
    """Return the newest entry of each slice."""
    found: dict[str, Rest] = {}
    for book in books:
        for name, rest in book.items():
            if name not in found or rest.at > found[name].at:
                found[name] = rest
    return found


class RestBook:
    """The record of the slices of one fleet that rest."""

    def __init__(
        self, compute: Callable[[], Compute], owner: str | None, file: str | Path | None
    ) -> None:
        self._compute = compute
        self._key = KEY if owner in (None, "", DEFAULT_OWNER) else f"{KEY}-{owner}"
        self._file = Path(file) if file else None
        self.alone = ""
        """The error that kept this record off the metadata; empty if others can read it."""

    def read(self) -> dict[str, Rest]:
        """Return the record. Raise TpuError when the metadata cannot be read just now."""
        shared: dict[str, Rest] = {}
        try:
            shared = from_text(values_of(self._compute().metadata()).get(self._key))
        except TpuError as error:
            self._only_here(error)
        return newest(shared, self._read_file())

    def write(self, changes: Mapping[str, Rest]) -> None:
        """Record changes: first in the local file, which needs no other computer.

        A change gets a time after the one that it replaces, even if the clock here is late.
        """
        known = self.read()
        changes = {
            name: replace(rest, at=max(rest.at, known[name].at + 1.0)) if name in known else rest
            for name, rest in changes.items()
        }
        if self._file is not None:
            text = to_text(newest(changes, self._read_file()))
            write_atomically(self._file, text, mode=0o600, uid=os.getuid(), gid=os.getgid())

        def alter(values: dict[str, str]) -> dict[str, str] | None:
            before = from_text(values.get(self._key))
            wanted = newest(changes, before)
            return None if wanted == before else {**values, self._key: to_text(wanted)}

        try:
            self._compute().change_metadata(alter)
        except TpuError as error:
            self._only_here(error)

    def wake(
        self, names: Iterable[str], now: float, unasked: Mapping[str, Rest] | None = None
    ) -> None:
        """Mark slices as wanted again; `unasked` are those that rest without a record."""
        known = {**(unasked or {}), **self.read()}
        changes = {
            name: replace(known[name], awake=True, by_queue=False, at=now)
            for name in names
            if name in known and (not known[name].awake or known[name].by_queue)
        }
        if changes:
            self.write(changes)

    def _read_file(self) -> dict[str, Rest]:
        return from_text(read_text(self._file)) if self._file is not None else {}

    def _only_here(self, error: TpuError) -> None:
        # Without the record, a controller would create a resting slice again.
        if isinstance(error, PASSING) or self._file is None:
            raise error
        self.alone = error.message


def book_of(client: Client, owner: str | None, file: str | Path | None) -> RestBook:
    """Return the record of the slices of an owner's fleet that rest."""
    return RestBook(lambda: Compute(GoogleApis(client)), owner, file)
