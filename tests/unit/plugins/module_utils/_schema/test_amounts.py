"""What programs on machines get of durations and sizes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._schema.amounts import KINDS, for_machines
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import Key, check_keys


def test_amounts_in_entries_become_what_machines_take() -> None:
    entries = [
        {"name": "a", "grace": "1m", "hang_after": None, "env": {"grace": "1m"}},
        {"name": "b", "min_free": "1GiB"},
    ]
    assert for_machines("training_run_runs", entries) == [
        {"name": "a", "grace": 60, "hang_after": None, "env": {"grace": "1m"}},
        {"name": "b", "min_free": 1 << 30},
    ]
    assert for_machines("ray_cluster_memory_max", "64GiB") == "64G"
    assert for_machines("host_base_journal_max_size", "2GiB") == 2048
    assert for_machines("user_shell_editor", "1GiB") == "1GiB"


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("nfs_share_timeout", 30, "nfs_share_timeout = 30 is not a duration. Write 30s"),
        ("host_base_min_free", 512, "host_base_min_free = 512 is not a size. Write it with its"),
        ("host_base_min_free", "5KiB", "host_base_min_free = '5KiB' is not a whole number of MiB"),
        ("ray_cluster_memory_max", "8G", "ray_cluster_memory_max = '8G' is not a size or share"),
    ],
)
def test_what_is_no_amount_is_refused_with_field_and_remedy(
    place: str, value: Any, words: str
) -> None:
    with pytest.raises(ValueError, match="is not a") as told:
        for_machines(place, value)
    assert str(told.value).startswith(words)


@pytest.mark.parametrize("kind", sorted(set(KINDS.values())))
def test_the_fleet_file_has_a_type_for_each_kind(kind: str) -> None:
    (problem,) = check_keys("", {"x": "much"}, {"x": Key(kind)}, among=())
    assert problem.message.startswith("is not a")
