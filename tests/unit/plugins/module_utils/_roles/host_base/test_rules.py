"""The rules of the base system in a fleet file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.host_base.rules import (
    check_host_base,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import fleet_name


def fields(**data: Any) -> list[str]:
    return [
        problem.field.replace("fleet_", "").replace("base_packages", "packages")
        for problem in check_host_base({fleet_name(f"host_base_{key}"): data[key] for key in data})
    ]


def test_a_good_one() -> None:
    assert (
        fields(
            extra_packages=["zsh", "g++-12", "libc6:i386", "git=1:2.39.5-0+deb12u2"],
            time_zone="America/Argentina/Buenos_Aires",
            locale="de_AT.UTF-8",
            limits={"nofile": 1000, "memlock": "unlimited"},
            disk_guard_full_percent=90,
            disk_guard_paths=[{"path": "/tmp/tpu_logs", "max_size": "1MiB"}],  # noqa: S108
        )
        == []
    )


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("packages", ["Git Hub"], "packages[0]"),
        ("time_zone", "../etc", "time_zone"),
        ("locale", "german", "locale"),
        ("locale", "de_AT", "locale"),
        ("limits", {"files": 1}, "limits.files"),
        ("limits", {"nofile": "many"}, "limits.nofile"),
        ("disk_guard_full_percent", 100, "disk_guard_full_percent"),
        ("disk_guard_interval", "59s", "disk_guard_interval"),
        ("disk_guard_paths", [{"path": "/tmp"}], "disk_guard_paths[0].path"),  # noqa: S108
    ],
)
def test_bad_ones(name: str, value: Any, field: str) -> None:
    assert fields(**{name: value}) == [field]
