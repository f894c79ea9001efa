"""What a machine's monitoring port reports of its chips."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tpu_local_cloud.model.shared import chips
from tpu_local_cloud.model.shared.faults import Fault, Faults

PAIR = chips.Machine("pair", "us-central2-b", 0, 2, 1000.0, (0, 1), 32)


def reported(faults: Faults, now: float, machine: chips.Machine = PAIR) -> chips.Report:
    return chips.report(machine, now, *chips.faults_of(faults, now, machine))


def launches(faults: Faults, now: float, worker: int) -> list[tuple[int, str]]:
    cores = reported(faults, now, replace(PAIR, worker=worker)).cores
    return [(core.launched.launch_id, core.hlo) for core in cores]


def test_all_workers_launch_together() -> None:
    faults = Faults()
    assert launches(faults, 1010.4, 0) == launches(faults, 1010.4, 1) == [(11, chips.WORKS)] * 2
    assert launches(faults, 1011.4, 0) == [(12, chips.WORKS)] * 2


def test_devices_share_the_memory_of_a_chip() -> None:
    report = reported(Faults(), 1001.0, replace(PAIR, chips=(1,), devices_per_chip=2))
    assert [(core.number, core.chip) for core in report.cores] == [(2, 1), (3, 1)]
    assert report.memory == {2: 16 * chips.GIB, 3: 16 * chips.GIB}
    assert report.memory_used == {2: 10 * chips.GIB, 3: 10 * chips.GIB}
    assert report.duty_cycle == {1: chips.BUSY}


def test_a_fault_holds_up_its_slice_and_no_other() -> None:
    faults = Faults()
    where = {"node": "pair", "worker": 1}
    faults.add(Fault("core_stuck", where, since=1010.0, options={"core": 1}))
    for now in (1010.5, 1600.0):
        assert launches(faults, now, 1) == [(11, chips.WAITS), (11, chips.WORKS)]
        assert launches(faults, now, 0) == [(11, chips.WAITS)] * 2
    other = reported(faults, 1600.0, replace(PAIR, node="other"))
    assert other.cores[0].launched.launch_id == 601
    faults.clear()
    assert launches(faults, 1600.0, 1) == [(601, chips.WORKS)] * 2


@pytest.mark.parametrize("options", [{"how": "loud"}, {"core": "one"}])
def test_a_fault_that_is_none(options: dict[str, object]) -> None:
    kind = "monitoring" if "how" in options else "core_stuck"
    with pytest.raises(ValueError, match=r"loud|one"):
        Faults().add(Fault(kind, options=options))


def test_a_look_uses_no_fault_up() -> None:
    faults = Faults()
    faults.add(Fault("core_lags", {"worker": 1}, since=1000.0, count=1))
    assert launches(faults, 1010.0, 1) == launches(faults, 1010.0, 1) == [(0, "")] * 2
    assert len(faults) == 1
