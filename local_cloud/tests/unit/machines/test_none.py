"""Machines that are addresses only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpu_local_cloud.machines import MachineSpec, make_backend


def test_power_follows_the_calls(tmp_path: Path) -> None:
    backend = make_backend("none", tmp_path)
    spec = MachineSpec("t1v-n-12345678-w-0", "us-central2-b", "1", 0, "10.128.0.2")
    assert backend.status(spec.machine_id) == "gone"
    backend.create(spec)
    assert backend.status(spec.machine_id) == "running"
    backend.power_off(spec.machine_id)
    assert backend.status(spec.machine_id) == "stopped"
    backend.power_on(spec)
    backend.delete(spec.machine_id)
    backend.delete(spec.machine_id)
    assert backend.status(spec.machine_id) == "gone"
    assert not list(tmp_path.iterdir())


def test_thousands_of_addresses_are_quick() -> None:
    backend = make_backend("none", Path("/nonexistent"))
    used: set[str] = set()
    for _ in range(10_000):
        used.add(backend.allocate_internal(used))
        used.add(backend.allocate_external(used))
    assert len(used) == 20_000


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ValueError, match="'vm'"):
        make_backend("vm", Path("/nonexistent"))
