"""What is left of a machine whose removal fails, and that the removal can be tried again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tpu_local_cloud.machines import MachineError
from tpu_local_cloud.machines.base import MachineSpec
from tpu_local_cloud.machines.container import ContainerMachines
from tpu_local_cloud.machines.layout import Layout

ONE = MachineSpec("t1v-n-1-w-0", "us-central2-b", "u", 0, "10.0.0.2", "10.0.1.2")


class Parts:
    """The engine, the network and the disks of a cloud, which only note what they were asked."""

    def __init__(self) -> None:
        self.busy = True
        self.asked: list[str] = []

    def podman(self, *words: str, timeout: float | None = None) -> str:
        if words[0] == "run" or (words[0] == "rm" and self.busy):
            raise MachineError(f"podman {words[0]}: no end after 120 s")
        self.asked.append(words[0])
        return ""

    def discard(self, *which: str) -> None:
        self.podman("rm", *which)

    def noting(self, name: str) -> Callable[..., Any]:
        return lambda *_words: self.asked.append(name) or []


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Parts:
    parts = Parts()
    for name in ("SHARED_LIB", "SHARED_RUN"):
        monkeypatch.setattr(f"tpu_local_cloud.machines.layout.{name}", tmp_path / name)
    monkeypatch.setattr("tpu_local_cloud.machines.container.start_keeper", lambda _layout: None)
    return parts


@pytest.fixture
def machines(parts: Parts, tmp_path: Path) -> ContainerMachines:
    made = cast("Any", ContainerMachines(tmp_path / "cloud"))
    made._engine = parts
    made._disks = SimpleNamespace(equip=parts.noting("equip"), release=parts.noting("release"))
    wiring = SimpleNamespace(
        plug=parts.noting("plug"),
        unplug=parts.noting("unplug"),
        unroute=parts.noting("unroute"),
        name_space=lambda machine_id: machine_id,
    )
    made._setup = (wiring, "/rootfs")
    return cast("ContainerMachines", made)


def test_a_removal_that_fails_is_done_by_the_next_one(
    machines: ContainerMachines, parts: Parts, tmp_path: Path
) -> None:
    record = Layout(tmp_path / "cloud").record(ONE.machine_id)
    record.parent.mkdir(parents=True)
    fields = {"machine_id": ONE.machine_id, "internal_ip": "10.0.0.2", "external_ip": "10.0.1.2"}
    record.write_text(json.dumps({**fields, "power": "on"}))
    with pytest.raises(MachineError):
        machines.delete(ONE.machine_id)
    # The keeper boots no machine that is off, and its disks are not free yet.
    assert machines.status(ONE.machine_id) == "stopped"
    assert "release" not in parts.asked
    parts.busy = False
    machines.delete(ONE.machine_id)
    assert machines.status(ONE.machine_id) == "gone"
    assert parts.asked[-3:] == ["rm", "unplug", "release"]


def test_what_a_failed_creation_leaves_is_removed_later(
    machines: ContainerMachines, parts: Parts
) -> None:
    with pytest.raises(MachineError):
        machines.create(ONE)
    assert machines.status(ONE.machine_id) == "stopped"
    parts.busy = False
    machines.delete(ONE.machine_id)
    assert machines.status(ONE.machine_id) == "gone"
    assert "release" in parts.asked
