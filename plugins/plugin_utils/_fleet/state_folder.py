# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which folder of this computer keeps the state of which fleet.

A fleet is what the label of an owner names in a project. The first fleet that comes has the whole
folder, and a note in it says so; every other fleet has a folder of its own below it.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...module_utils._schema.keys import Problem

NOTE = "fleet"
"""The file that names the fleet whose state a folder keeps."""
OTHERS = "fleets"
OWNER_REMEDY = "Write it as owner into the inventory's fleet.tpu.yml, and nowhere else"
FOLDER_REMEDY = (
    "Take fleet_state_dir out of your variables, for the inventory tpu.fleet.tpu gives every fleet "
    "a folder of its own; or name another folder"
)


def fleet_name(projects: Sequence[str], owner: str | None, endpoint: str | None = None) -> str:
    """Name a fleet, and the API that it is at where that is not Google's."""
    # Imported here and below, because commands that only read the folder need neither.
    from ...module_utils._core.ownership import DEFAULT_OWNER

    host = re.sub(r"^https?://|/.*$", "", endpoint or "")
    where = "" if not host or host.endswith(".googleapis.com") else f" at {host}"
    return f"{owner or DEFAULT_OWNER} in {','.join(projects)}{where}"


def base_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder below which all fleets of this person keep their state."""
    return Path(environment.get("TPU_FLEET_STATE_DIR") or "~/.local/state/tpu-fleet").expanduser()


def holder(folder: Path) -> str:
    """Return the fleet whose state a folder keeps; empty when none is noted yet."""
    try:
        return (folder / NOTE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def take(folder: Path, fleet: str) -> bool:
    """Return whether a folder keeps the state of this fleet; note it where none is noted."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The whole note appears at once, also for another process at this moment.
    note = folder / f".{NOTE}.{os.getpid()}"
    if not holder(folder):
        note.write_text(f"{fleet}\n", encoding="utf-8")
        try:
            os.link(note, folder / NOTE)
        except FileExistsError:
            pass
        finally:
            note.unlink()
    return holder(folder) == fleet


def folder_of(base: Path, fleet: str) -> Path:
    """Return where a fleet keeps its state."""
    if take(base, fleet):
        return base
    own = base / OTHERS / re.sub(r"[^A-Za-z0-9._-]+", "-", fleet)
    take(own, fleet)
    return own


def problems_of(variables: Mapping[str, Any], template: Any, note: bool) -> list[Problem]:
    """Say where the variables of a play mean another fleet than their inventory.

    With note, a folder that they name and that has no fleet yet is noted as this fleet's.
    """
    from ...module_utils._schema.keys import Problem

    fleet, owner, folder = (
        str(template(variables.get(name) or ""))
        for name in ("fleet_name", "fleet_owner", "fleet_state_dir")
    )
    problems = []
    shown = fleet.partition(" in ")[0]
    if fleet and owner and owner != shown:
        message = f"is not the owner of what the inventory shows, which is {shown}"
        problems.append(Problem("fleet_owner", owner, message, OWNER_REMEDY))
    if not fleet or not folder:
        return problems
    place = Path(folder).expanduser()
    if place.is_dir() and stat.S_IMODE(place.stat().st_mode) & 0o022:
        message = "is a folder that others may write to"
        remedy = (
            f"Name a folder of your own, or close this one: chmod go-w {shlex.quote(str(place))}"
        )
        problems.append(Problem("fleet_state_dir", folder, message, remedy))
        return problems
    other = holder(place)
    if not other and note:
        take(place, fleet)
    elif other not in ("", fleet):
        message = f"keeps the state of another fleet ({other}; this is {fleet})"
        problems.append(Problem("fleet_state_dir", folder, message, FOLDER_REMEDY))
    return problems
