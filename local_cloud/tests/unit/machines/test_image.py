"""Which base image is tried, and what its name depends on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tpu_local_cloud.machines.host import HostFacts
from tpu_local_cloud.machines.image import UBUNTU, Base, candidates, live_users

FACTS = HostFacts("Linux", 0, "debian", (), "bookworm", "cgroup2", True, 0, 1024, 1024)
OWN = ("debian", "bookworm")


@pytest.mark.parametrize(
    ("wanted", "codename", "expected"),
    [
        ("auto", "bookworm", [("pull", UBUNTU), OWN]),
        ("auto", "", [("pull", UBUNTU)]),
        ("ubuntu", "bookworm", [("pull", UBUNTU)]),
        ("debian", "bookworm", [OWN]),
        ("debian", "", []),
        ("registry.example/image:1", "bookworm", [("pull", "registry.example/image:1")]),
    ],
)
def test_candidates(wanted: str, codename: str, expected: list[tuple[str, str]]) -> None:
    found = candidates(wanted, replace(FACTS, codename=codename))
    assert [(base.kind, base.source) for base in found] == expected


def test_another_package_makes_another_base() -> None:
    assert Base("debian", "bookworm").key == Base("debian", "bookworm").key
    assert Base("debian", "bookworm").key != Base("debian", "trixie").key
    assert Base("debian", "bookworm").key != Base("debian", "bookworm", ("systemd",)).key


def test_a_cloud_whose_state_is_gone_uses_no_image(tmp_path: Path) -> None:
    alive, dead = tmp_path / "alive", tmp_path / "dead"
    alive.write_text(str(tmp_path))
    dead.write_text(str(tmp_path / "nothing"))
    assert live_users([alive, dead]) == [alive]
