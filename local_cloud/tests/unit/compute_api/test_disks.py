"""Which disks the machines are given, and when those are deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_local_cloud.compute_api import disks as compute
from tpu_local_cloud.google.answers import Call
from tpu_local_cloud.machines import DataDisk, MachineSpec
from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.store import Store

ZONE = "us-central2-b"
BODY = {"acceleratorType": "v4-16", "runtimeVersion": "tpu-ubuntu2204-base"}


class Machines(NoMachines):
    """Notes what is asked about disks."""

    def __init__(self) -> None:
        super().__init__()
        self.has: dict[int, tuple[DataDisk, ...]] = {}
        self.disks: list[tuple[Any, ...]] = []

    def create(self, spec: MachineSpec) -> None:
        """Note the disks."""
        self.has[spec.worker] = spec.disks

    set_disks = create

    def grow_disk(self, zone: str, name: str, size_gb: int) -> None:
        """Note the size."""
        self.disks.append((zone, name, size_gb))

    def delete_disk(self, zone: str, name: str) -> None:
        """Note that it goes."""
        self.disks.append((zone, name))


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.fixture
def cloud(machines: Machines) -> Cloud:
    cloud = Cloud(machines, Store(None), Clock("immediate"))
    for name, size in (("data", "10"), ("more", "20")):
        cloud.around.disks.put(
            f"{ZONE}/{name}",
            {"zone": ZONE, "name": name, "sizeGb": size, "type": "pd-standard", "labels": {}},
        )
    return cloud


def _source(name: str, **more: Any) -> dict[str, Any]:
    return {"sourceDisk": f"projects/local-project/zones/{ZONE}/disks/{name}", **more}


def _ask(cloud: Cloud, what: Any, name: str, body: bytes = b"") -> None:
    what(cloud, Call("POST", {"zone": ZONE, "id": name}, {}, body))


def test_each_worker_is_given_its_disks(cloud: Cloud, machines: Machines) -> None:
    wanted = [_source("data", mode="READ_ONLY"), _source("more", workerIds=["1"])]
    cloud.create(ZONE, "node", {**BODY, "dataDisks": wanted}, "v2alpha1")
    data, more = DataDisk(ZONE, "data", 10, False), DataDisk(ZONE, "more", 20, True)
    assert machines.has == {0: (data,), 1: (data, more)}
    fewer = {"dataDisks": [_source("data", mode="READ_ONLY")]}
    cloud.update(ZONE, "node", fewer, ["data_disks"], "v2alpha1")
    assert machines.has == {0: (data,), 1: (data,)}
    cloud.update(ZONE, "node", {}, ["data_disks"], "v2alpha1")
    assert machines.has == {0: (), 1: ()}


def test_only_an_update_of_disks_asks_for_them(cloud: Cloud, machines: Machines) -> None:
    cloud.create(ZONE, "node", BODY, "v2")
    machines.has.clear()
    cloud.update(ZONE, "node", {"labels": {"a": "b"}}, ["labels"], "v2")
    assert machines.has == {}


def test_contents_go_with_the_disk(cloud: Cloud, machines: Machines) -> None:
    body = {**BODY, "dataDisks": [_source("data", mode="READ_ONLY")]}
    cloud.create(ZONE, "node", body, "v2")
    cloud.preempt(ZONE, "node")
    cloud.delete(ZONE, "node", "v2")
    assert machines.disks == []
    _ask(cloud, compute.resize, "data", b'{"sizeGb": "30"}')
    _ask(cloud, compute.delete, "data")
    cloud.reset()
    assert machines.disks == [(ZONE, "data", 30), (ZONE, "data"), (ZONE, "more")]
