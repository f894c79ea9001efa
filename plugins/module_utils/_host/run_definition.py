# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which values of a run's definition are part of the run. Private to tpu.fleet.

The run agent restarts a run when one of them changes, and the role training_run names it. The file
is part of the run agent, too, so it needs only the standard library and Python 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What differs between workers, says where things are, or concerns the agent and not the program:
# another value leaves the program alone.
NOT_DEFINITION = (
    "slice",
    "worker",
    "hosts",
    "slices",
    "megascale_port",
    "peer_port",
    "workdir",
    "timing",
    "paths",
    "log",
    "fence",
    "position",
    "metadata",
    "storage",
    "archive",
    "results",
    "hang_seconds",
    "step_pattern",
    "no_retry_exit_codes",
    "needs_tpu",
    "min_free_bytes",
    "compile_cache_bytes",
    "checkpoint_signal",
    "checkpoint_command",
    "checkpoint_lead_seconds",
    "failures_before",
)


def part_of_the_run(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a definition that are part of the run."""
    return {key: value for key, value in definition.items() if key not in NOT_DEFINITION}


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the values that are part of the run and differ, in order."""
    old, new = part_of_the_run(before), part_of_the_run(after)
    return [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
