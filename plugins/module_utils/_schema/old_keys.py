# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and choices of entries that version 0.1.0 named otherwise, with the new names. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .sizes import text_of_size

# Old key and its successor, by where the key stands: the variable, and the key above if it is
# deeper. A successor with a colon has other values, too; in {} goes the old number.
OLD_KEYS: Mapping[str, Mapping[str, str]] = {
    "fleet_buckets": {
        "owner": "user",
        "file_mode": "file_permissions",
        "dir_mode": "dir_permissions",
        "cache_mb": "cache_size: {}MiB",
    },
    "fleet_code": {"owner": "user", "dest": "path", "folder": "local_path"},
    "fleet_secrets": {"owner": "user", "variables": "env", "login": "in_login_shell"},
    "fleet_disks": {
        "owner": "user",
        "mount": "path",
        "mode": "read_only: true or false, or permissions",
        "size_gb": "size: {}GiB",
        "source_disk": "name",
        "worker_ids": "workers",
    },
    "fleet_self_setup": {"folder": "local_path"},
    "fleet_slices": {
        "idle_minutes": "idle_after: {}m",
        "boot_disk_size_gb": "boot_disk_size: {}GiB",
    },
    "fleet_disk_guard_paths": {"min_age_hours": "min_age: {}h", "max_mb": "max_size: {}MiB"},
    "fleet_boards": {"reload_seconds": "reload_interval: {}s"},
    "fleet_runs": {
        "fail_fast_seconds": "fail_fast_window: {}s",
        "grace_seconds": "grace: {}s",
        "hang_seconds": "hang_after: {}s",
        "checkpoint_lead_seconds": "checkpoint_lead: {}s",
        "min_free_bytes": "min_free: {}B",
    },
    "fleet_git_hosts": {"login": "user"},
    "fleet_shares": {
        "owner": "user",
        "mode": "permissions",
        "when_away": "on_timeout: error or wait",
    },
    "fleet_notebooks": {"folder": "path", "cull_idle_seconds": "cull_idle_after: {}s"},
    "fleet_index_credentials": {"username": "user"},
    "fleet_venvs": {"owner": "user", "environment": "build_env"},
    "fleet_users": {"home_mode": "home_permissions"},
    "fleet_shells.dotfiles": {"folder": "local_path"},
}

# Keys that went to another variable, with what to do.
MOVED_KEYS = dict.fromkeys(
    ("fleet_slices.data_disks", "fleet_slices.disks"),
    "Name the slice in slices of each of these disks, which are entries of fleet_disks",
)

NULL = "null"
# Old values of a key and their successors, by where the key stands; numbers as texts.
OLD_WORDS: Mapping[str, Mapping[str, str]] = {
    "fleet_secrets.write": {"variables": "env"},
    "fleet_allocations.tier": {"preemptible": "spot"},
    "fleet_prices.tier": {"preemptible": "spot"},
    "fleet_slices.tier": {"preemptible": "spot"},
    "fleet_shares.on_timeout": {"give_up": "error"},
    "fleet_git_keys.register": {"none": NULL},
    "fleet_locale": {"": NULL},
    "fleet_ray_chips": {"-1": NULL},
    "fleet_ray_cpus": {"-1": NULL},
    "fleet_run_metadata_url": {"": NULL},
    "fleet_runs.checkpoint_dir": {"": NULL},
    "fleet_shared_cache": {"none": NULL},
    "fleet_torch_index_url": {"": NULL},
    "fleet_users.sudo": {"none": NULL},
    "fleet_venvs.framework": {"none": NULL},
}


def place_of(field: str) -> str:
    """Return the place of a field as the tables name it: `fleet_disks[0].name` has no index."""
    return re.sub(r"\[\d+\]", "", field).rstrip(".")


def successor(prefix: str, key: str) -> str | None:
    """Return what to write for an old key below a prefix as `fleet_disks[0].`; None for others."""
    return OLD_KEYS.get(place_of(prefix), {}).get(key)


def in_new_form(new: str, value: Any) -> str:
    """Return a successor with the old value in its new form; what was off is null."""
    if "{}" not in new:
        return new
    key, unit = new.split(": {}")
    if value in (0, "0", -1, "-1"):
        return f"{key}: null"
    is_size = unit.endswith("B") and re.fullmatch("[0-9]+", str(value))
    return f"{key}: {text_of_size(int(value), unit)}" if is_size else new.format(value)


def is_now_null(field: str, value: Any) -> bool:
    """Return whether a value of a field stood for what is null now."""
    is_word = isinstance(value, (str, int)) and not isinstance(value, bool)
    return is_word and OLD_WORDS.get(place_of(field), {}).get(str(value)) == NULL


def renamed_to(prefix: str, key: str, given: Iterable[str]) -> bool:
    """Return whether one of the given keys is an old name of this key."""
    return any((successor(prefix, old) or "").split(":")[0] == key for old in given)
