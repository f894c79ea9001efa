# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A version of a code tree that came without a wish: this host knows it as if one had named it.

Otherwise the next wish would find other files, and the timer of this host would install the version
of the kept one again.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Callable, Dict, Mapping, Optional, Tuple

from . import stamp
from .again import kept
from .place import Place, read, write
from .store import Store
from .wish import ARCHIVE, DESCRIPTION, Known, Wish
from .work import Work

ROLE = "code_checkout"


def snapshot_of(place: Place, tree: str) -> Optional[Tuple[Path, Path]]:
    """Return archive and description of the version of a tree that the kept wish names."""
    store = Store(place.store)
    for wish in reversed(kept(place)):
        files = wish.snapshots.get(ROLE, {})
        names = [files.get(f"{tree}{end}", "") for end in (ARCHIVE, DESCRIPTION)]
        if all(names) and not store.missing(names):
            return store.path(names[0]), store.path(names[1])
    return None


def take(place: Place, tree: str, archive: bytes, description: bytes) -> None:
    """Have the kept wish name these files of a tree, and the record of its role, too."""
    wishes = kept(place)
    if not any(ROLE in wish.roles for wish in wishes):
        return
    store = Store(place.store)
    names = {
        f"{tree}{ARCHIVE}": _kept(store, archive),
        f"{tree}{DESCRIPTION}": _kept(store, description),
    }
    changed = [_naming(wish, names) if ROLE in wish.roles else wish for wish in wishes]
    write(place.wishes, json.dumps([asdict(wish) for wish in changed]))
    for at, before in enumerate(wishes):
        if before != changed[at]:
            _take_for_applied(place, before, changed[at])
    store.keep([name for wish in changed for name in wish.files])


def _kept(store: Store, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    if store.missing([name]):
        store.receive(io.BytesIO(data), name, len(data))
    return name


def _naming(wish: Wish, names: Mapping[str, str]) -> Wish:
    files = {**wish.snapshots.get(ROLE, {}), **names}
    return replace(wish, snapshots={**wish.snapshots, ROLE: files})


def _take_for_applied(place: Place, before: Wish, after: Wish) -> None:
    """Take the role for applied with the new files, if it was with the earlier ones."""
    known = Known.read(read(place.known))
    old, new = Work(place, before).record, Work(place, after).record
    role = known.roles.get(ROLE)
    if role is None or role.status != "ok" or role.given != old.given[ROLE]:
        return
    known = replace(
        known.with_status([ROLE], new.given, "ok"),
        parts={**known.parts, ROLE: new.parts.get(ROLE, {})},
    )
    write(place.known, json.dumps(known.record()))


def look_again(
    place: Place, is_own: Callable[[str], bool], watch: Optional[stamp.Watch] = None
) -> None:
    """Record the present state of these paths as the declared one.

    `watch` sees all of them; without it, everything is looked at.
    """
    before: Dict[str, str] = read(place.stamp) or {}
    if before:
        now = stamp.look(watch or place.watch, before)
        write(place.stamp, json.dumps(stamp.with_own(before, now, is_own)))
