# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the NFS shares of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._schema.keys import Problem, duplicates, entries, text_of, texts_of
from ..._schema.refs import at_least, known, known_slices, known_user
from .plan import problems_of

_HERE = "fleet_shares"
_LEAST = {
    "fleet_share_timeout": "3s",
    "fleet_share_mount_timeout": "3s",
    "fleet_share_grace": "10s",
}


def _about_its_end(
    data: Mapping[str, Any], share: Mapping[str, Any], exporter: str
) -> list[Problem]:
    """Return problems of slices that would go with their runs although others use their share."""
    slices = entries(data, "fleet_slices")
    users = [name for _index, name in texts_of(share, "slices")]
    users = users or [str(text_of(entry, "name")) for _field, entry in slices]
    others = sorted(set(users) - {exporter})
    return [
        Problem(
            f"{field}.on_finish",
            entry["on_finish"],
            f"would take the share {text_of(share, 'name')} away from {', '.join(others)}",
            "Use on_finish: keep for a slice that exports a share to others",
        )
        for field, entry in slices
        if others
        and text_of(entry, "name") == exporter
        and entry.get("on_finish") in ("stop", "delete")
    ]


def check_nfs_share(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared NFS shares."""
    problems = duplicates(data, _HERE, "name", "Give each share its own name")
    problems += duplicates(data, _HERE, "path", "Give each share its own folder")
    for field, entry in entries(data, _HERE):
        for key, message, remedy in problems_of(entry):
            problems.append(Problem(f"{field}.{key}", entry.get(key), message, remedy))
        exporter = text_of(entry, "slice")
        if exporter:
            problems += known(data, f"{field}.slice", exporter, "slice", "fleet_slices")
        problems += known_slices(data, field, entry)
        problems += known_user(data, field, entry, "user")
        if exporter:
            problems += _about_its_end(data, entry, exporter)
    return problems + at_least(data, _LEAST)
