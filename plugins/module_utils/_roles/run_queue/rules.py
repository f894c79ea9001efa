# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for a slice that serves the queue. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._schema.keys import Problem, entries, text_of
from ..._schema.refs import in_its_slice


def check_run_queue(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of what is declared for the queue."""
    problems = in_its_slice(data, "run_queue")
    for field, entry in entries(data, "fleet_slices"):
        if entry.get("on_queue") is True:
            problems += _about_submitted_runs(data, f"{field}.on_queue", text_of(entry, "name"))
    return problems


def _about_submitted_runs(data: Mapping[str, Any], field: str, name: str | None) -> list[Problem]:
    """Return why no submitted run can bring a slice, or why it would have to be there always."""
    found = []
    queue = data.get("fleet_queue")
    served = queue.get("slices") if isinstance(queue, Mapping) else None
    if not queue:
        found.append(("has no queue to come for", "Set fleet_queue, or leave on_queue out"))
    elif served and name not in served:
        found.append((f"does not go with fleet_queue.slices, which lacks {name}", f"Add {name}"))
    here = [
        str(text_of(run, "name"))
        for _field, run in entries(data, "fleet_runs")
        if name in (run.get("slices") or ()) and run.get("enabled") is not False
    ]
    if here:
        message = f"would keep {', '.join(here)} of fleet_runs from starting"
        found.append((message, "Submit them (tpu-fleet submit), or leave on_queue out"))
    return [Problem(field, True, message, remedy) for message, remedy in found]
