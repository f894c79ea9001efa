# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of roles that are on by default and off by `null`.

Anywhere else, nothing behind the colon is as good as no key. Machines use this too. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# By their place: the variable, and the key of its entries after a dot.
OFF_BY_NULL = frozenset(
    {
        "host_base_journal_max_size",
        "host_base_locale",
        "host_base_min_free",
        "nfs_share_idle_timeout",
        "python_env_shared_cache",
        "python_env_torch_index_url",
        "run_queue_metadata_url",
        "training_run_metadata_url",
        "training_run_runs.archive",
        "training_run_runs.checkpoint_dir",
        "training_run_runs.compile_cache_size",
        "training_run_runs.min_free",
    }
)


def without_nulls(options: Mapping[str, Any], given: Mapping[str, Any], above: str = "") -> Any:
    """Return the values of options, those of entries too, without what stands for no key.

    What is off by null stays null. `options` are those of an argument specification.
    """
    return {
        name: _inside(options.get(name) or {}, value, f"{above}{name}.")
        for name, value in given.items()
        if value is not None or f"{above}{name}" in OFF_BY_NULL
    }


def _inside(option: Mapping[str, Any], value: Any, above: str) -> Any:
    inner = option.get("options")
    if not inner:
        return value
    if isinstance(value, list):
        return [_inside(option, one, above) for one in value]
    return without_nulls(inner, value, above) if isinstance(value, Mapping) else value
