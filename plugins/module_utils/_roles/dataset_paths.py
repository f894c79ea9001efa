# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the data sets that runs name are, and what they are. No I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

ROOT = "/opt/tpu-fleet/datasets"


def path_of(entry: Mapping[str, Any]) -> str:
    """Return where a data set is put."""
    return str(entry.get("path") or f"{ROOT}/{entry['name']}").rstrip("/")


def id_of(entry: Mapping[str, Any]) -> str:
    """Return the id of the content of a data set, as it is declared.

    Where it is put, and for whom, is no part of it.
    """
    parts = [entry.get(key) for key in ("from", "sha256", "include")]
    text = json.dumps([part or "" for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def placed(names: Iterable[str], declared: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return name, path and content of the data sets that a run names, for its definition."""
    known = {str(entry["name"]): entry for entry in declared}
    return [
        {"name": name, "path": path_of(known[name]), "id": id_of(known[name])}
        for name in names
        if name in known
    ]
