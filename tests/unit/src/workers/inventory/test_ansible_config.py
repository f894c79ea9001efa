"""A change of any file in which a fleet is declared is seen without Ansible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from waiting import wait_until

from tpu_fleet.workers.inventory.ansible_config import stamp_of


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return an inventory of which one folder with variables is a link."""
    shared, inventory = tmp_path / "shared", tmp_path / "inventory"
    shared.mkdir()
    (shared / "fleet.yml").write_text("one")
    for name in ("group_vars", "host_vars/solo"):
        (inventory / name).mkdir(parents=True)
    (inventory / "group_vars/all").symlink_to(shared)
    (inventory / "group_vars/again").symlink_to(inventory / "group_vars")
    (inventory / "host_vars/solo/own.yml").write_text("one")
    (inventory / "tpu.yml").write_text("one")
    return inventory


FILES = ("tpu.yml", "group_vars/all/fleet.yml", "host_vars/solo/own.yml")


@pytest.mark.parametrize("changed", FILES)
@pytest.mark.parametrize("source", ["", "tpu.yml"])
def test_each_change_is_seen(inventory: Path, source: str, changed: str) -> None:
    """Also one that leaves size and time, as a copy that keeps times does."""
    sources, file = [str(inventory / source)], inventory / changed
    first = stamp_of(sources)
    assert first == stamp_of(sources)
    before = file.stat()

    def change() -> bool:
        file.write_text("two")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        return stamp_of(sources) != first

    # At once, unless it was made within the same tick of the kernel's clock.
    wait_until(change, "it is seen")


def test_a_link_in_a_circle_is_followed_once(inventory: Path) -> None:
    names = [Path(name).name for name, *_facts in stamp_of([str(inventory)])]
    assert sorted(names) == ["fleet.yml", "own.yml", "tpu.yml"]


def test_files_that_come_and_go_are_seen(inventory: Path) -> None:
    sources = [str(inventory / "tpu.yml"), str(inventory / "none")]
    first = stamp_of(sources)
    new = inventory / "group_vars/tpu.yml"
    new.touch()
    assert str(new) in {name for name, *_facts in stamp_of(sources)}
    new.unlink()
    assert stamp_of(sources) == first
