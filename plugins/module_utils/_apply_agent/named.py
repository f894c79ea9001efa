# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles put where the fleet file wanted it: they wrote down where that is."""

from __future__ import annotations

import hashlib
import json
import pwd
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Sequence

# Of a home, and what the links that it lists begin with.
DOTFILES = ".local/share/tpu-fleet/dotfiles.json"


def paths(patterns: Sequence[str], homes: Sequence[str]) -> List[str]:
    """Return all paths that the records name, and the records themselves."""
    found: Dict[str, None] = {}
    for record in _matching(patterns):
        found[record] = None
        for text in _strings(_json(record)):
            # A path, and no text of several words that begins with one.
            if text.startswith("/") and len(text) < 1024 and not set(text) & set("\n\0"):
                found[text] = None
    for home in homes:
        links = _json(f"{home}/{DOTFILES}").get("links", [])
        for name in links if isinstance(links, list) else []:
            found[f"{home}/{name}"] = None
    return list(found)


def packages(patterns: Sequence[str]) -> Dict[str, str]:
    """Return a hash of the names and versions that are installed, by environment."""
    found = {}
    for record in _matching(patterns):
        build = str(_json(record).get("build", ""))
        if build.startswith("/"):
            installed = Path(build).glob("lib/python3*/site-packages/*.dist-info")
            names = "\n".join(sorted(path.name for path in installed))
            found[f"packages in {build}"] = hashlib.sha256(names.encode()).hexdigest()
    return found


def homes_of_people() -> List[str]:
    """Return the homes of root and of all who are no services."""
    return [
        account.pw_dir
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
