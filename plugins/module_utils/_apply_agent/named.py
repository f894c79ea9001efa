# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths that the fleet file chose: the roles record where they have put things.

All records are in folders that belong to root.
"""

from __future__ import annotations

import hashlib
import json
import pwd
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

# The dotfiles of each user, as the role user_shell records them.
DOTFILES = "/var/lib/tpu-fleet/dotfiles"


def paths(patterns: Sequence[str]) -> Dict[str, List[str]]:
    """Return all paths that the records name, by the owner of the path."""
    found: Dict[str, Dict[str, None]] = {}
    for record in _matching(patterns):
        found.setdefault("root", {})[record] = None
        data = _json(record)
        of_owner = found.setdefault(str(data.get("owner") or "root"), {})
        for text in _strings(data):
            # Only a path, not a text of several words that begins with one.
            if text.startswith("/") and len(text) < 1024 and not set(text) & set("\n\0"):
                of_owner[text] = None
    return {owner: list(named) for owner, named in found.items()}


def links(user: str, folder: str = DOTFILES) -> List[str]:
    """Return the targets of a user's dotfile links, relative to the home."""
    names = _json(links_of(user, folder)).get("links", [])
    whole = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return [name for name in whole if name and ".." not in name.split("/") and name[0] != "/"]


def links_of(user: str, folder: str = DOTFILES) -> str:
    """Return the record of a user's dotfile links."""
    return f"{folder}/{user}.json"


def packages(patterns: Sequence[str]) -> Dict[str, Tuple[str, str]]:
    """Return owner and folder of each recorded environment, by a name for messages."""
    found = {}
    for record in _matching(patterns):
        data = _json(record)
        build = str(data.get("build", ""))
        if build.startswith("/"):
            found[f"packages in {build}"] = (str(data.get("owner") or "root"), build)
    return found


def installed(build: str) -> str:
    """Return a hash of the names and versions of the packages in an environment."""
    there = Path(build).glob("lib/python3*/site-packages/*.dist-info")
    names = "\n".join(sorted(path.name for path in there))
    return hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()


def folders(build: str) -> List[str]:
    """Return the folders whose entries say what is installed in an environment."""
    lib = Path(build) / "lib"
    return [str(lib), *sorted(map(str, lib.glob("python3*/site-packages")))]


def people() -> List[pwd.struct_passwd]:
    """Return the accounts of root and of all users that are not services."""
    return [
        account
        for account in pwd.getpwall()
        if account.pw_uid == 0 or 1000 <= account.pw_uid < 60000
    ]


def _matching(patterns: Sequence[str]) -> List[str]:
    found = []
    for pattern in patterns:
        folder, _slash, name = pattern.rpartition("/")
        found += sorted(str(path) for path in Path(folder).glob(name))
    return found


def _json(path: str) -> Mapping[str, Any]:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)
