# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The persons who keep runs stopped, as `tpu-fleet` has seen it and keeps it for other machines."""

from __future__ import annotations

from pathlib import Path

from ...module_utils._host.runs import read_json

FILE = "stopped.json"
"""In the state folder of the fleet; playbooks/vars/apply.yml reads it too."""
Stops = dict[str, dict[str, str]]
"""The person who keeps a run stopped, by slice and run."""


def read_stops(folder: Path) -> Stops:
    """Return what is kept; nothing where the file is missing or of another form."""
    return {
        name: {run: by for run, by in runs.items() if isinstance(by, str)}
        for name, runs in read_json(folder / FILE).items()
        if isinstance(runs, dict)
    }
