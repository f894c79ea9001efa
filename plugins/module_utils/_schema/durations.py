# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations as people write them (`90s`, `2d`, `1h30m`), and which options of roles are such.

Argument specifications have no type for them. Machines use this too. No I/O.
"""

from __future__ import annotations

import re
from typing import Any

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
# Whole numbers, the larger unit first; for schemas, which know no names of groups.
DURATION = "(?=[0-9])([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?"
EXAMPLES = "90s, 30m, 12h or 2d"


def seconds_in(text: str) -> int | None:
    """Return the seconds of a duration; None for any other text, such as a bare number."""
    match = re.fullmatch(DURATION, text)
    if match is None:
        return None
    parts = (part for part in match.groups() if part)
    return sum(int(part[:-1]) * _UNITS[part[-1]] for part in parts)


def seconds(value: Any) -> int:
    """Return the seconds of a duration; raise ValueError, with the remedy, for anything else."""
    found = seconds_in(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is not a duration. {remedy_for(value)}.")
    return found


def remedy_for(value: Any) -> str:
    """Return what to write in place of a value that is not a duration."""
    bare = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if bare or (isinstance(value, str) and re.fullmatch("[0-9]+", value)):
        return f"Write {value}s, or with another unit: {EXAMPLES}"
    return f"Write {EXAMPLES}"


# By their place: the variable, and the key of its entries after a dot.
DURATIONS = frozenset(
    {
        "bucket_mount_apt_lock_timeout",
        "bucket_mount_buckets.metadata_ttl",
        "bucket_mount_timeout",
        "data_disk_apt_lock_timeout",
        "data_disk_device_timeout",
        "git_access_apt_lock_timeout",
        "host_base_apt_lock_timeout",
        "host_base_disk_guard_interval",
        "host_base_disk_guard_paths.min_age",
        "host_base_first_boot_timeout",
        "nfs_share_apt_lock_timeout",
        "nfs_share_grace",
        "nfs_share_idle_timeout",
        "nfs_share_mount_timeout",
        "nfs_share_timeout",
        "notebook_server_notebooks.cull_idle_after",
        "notebook_server_start_timeout",
        "python_env_apt_lock_timeout",
        "ray_cluster_start_timeout",
        "tensorboard_server_boards.reload_interval",
        "tensorboard_server_start_timeout",
        "tpu_metrics_apt_lock_timeout",
        "tpu_metrics_interval",
        "run_queue_lost_after",
        "training_run_lost_after",
        "training_run_runs.checkpoint_lead",
        "training_run_runs.fail_fast_window",
        "training_run_runs.grace",
        "training_run_runs.hang_after",
    }
)
