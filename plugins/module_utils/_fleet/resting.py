# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which slices rest: they are stopped or deleted, as their runs are over. Who knows it, and how.

Of a slice that was deleted nothing is left that could carry a label. What is known of it stands in
the project's metadata, where every controller looks, and in a file of this computer for those who
may not read or write there. Of two that differ the newer one holds.
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
from .._host.state import read_text, write_atomically

KEY = "tpu-fleet-rest"


@dataclass(frozen=True)
class Rest:
    """Why a slice is not there, or not for long."""

    how: str
    mark: str
    """The runs that it was put to rest for, by a hash: others wake it."""
    ends: str = ""
    """Which ends of its runs that was for; empty when it was idle."""
    why: str = ""
    at: float = 0.0
    done: bool = False
    awake: bool = False
    """Whether somebody has asked for it since."""


def marks_of(
    runs: Iterable[Mapping[str, Any]],
    slices: Iterable[Mapping[str, Any]],
    trees: Iterable[Mapping[str, Any]] = (),
) -> dict[str, str]:
    """Return for each slice that may be put to rest a hash of the runs that it is to have.

    It is kept where others can read it, and runs may have passwords in their env: by scrypt, nobody
    tries them out.
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
    """Write down what is known."""
    return json.dumps({name: asdict(rest) for name, rest in sorted(known.items())}, sort_keys=True)


def from_text(text: str | None) -> dict[str, Rest]:
    """Understand what stands there; what nobody understands is nothing."""
    found = {}
    try:
        for name, said in json.loads(text or "{}").items():
            fields = {key: said[key] for key in Rest.__dataclass_fields__ if key in said}
            found[str(name)] = Rest(**fields)
    except (ValueError, TypeError, AttributeError, KeyError):
        return {}
    return found


def newest(*books: Mapping[str, Rest]) -> dict[str, Rest]:
    """Return of each slice what was written last."""
    found: dict[str, Rest] = {}
    for book in books:
        for name, rest in book.items():
            if name not in found or rest.at > found[name].at:
                found[name] = rest
    return found


class RestBook:
    """What is known of the slices of one fleet that rest."""

    def __init__(
        self, compute: Callable[[], Compute], owner: str | None, file: str | Path | None
    ) -> None:
        self._compute = compute
        self._key = KEY if owner in (None, "", DEFAULT_OWNER) else f"{KEY}-{owner}"
        self._file = Path(file) if file else None
        self.alone = ""
        """Why other computers do not know what is written here, where they do not."""

    def read(self) -> dict[str, Rest]:
        """Return what is known. Raises TpuError when nobody can be asked just now."""
        shared: dict[str, Rest] = {}
        try:
            shared = from_text(values_of(self._compute().metadata()).get(self._key))
        except TpuError as error:
            self._only_here(error)
        return newest(shared, self._read_file())

    def write(self, changes: Mapping[str, Rest]) -> None:
        """Note something of slices; here first, which needs nobody.

        It is newer than what is known, whatever the clock says here.
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

    def wake(self, names: Iterable[str], now: float) -> None:
        """Have slices be wanted again."""
        known = self.read()
        changes = {
            name: replace(known[name], awake=True, at=now)
            for name in names
            if name in known and not known[name].awake
        }
        if changes:
            self.write(changes)

    def _read_file(self) -> dict[str, Rest]:
        return from_text(read_text(self._file)) if self._file is not None else {}

    def _only_here(self, error: TpuError) -> None:
        # Who does not know whether a slice rests would make it again.
        if isinstance(error, PASSING) or self._file is None:
            raise error
        self.alone = error.message
