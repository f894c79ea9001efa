"""What the doctor gathers on a machine: what it tries of the other workers' ports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import gather
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.gather import Place
from ansible_collections.tpu.fleet.plugins.module_utils._host import port_test
from ports import deaf_port, free_port

HOSTS = ["127.0.0.2", "127.0.0.3"]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_test.tried, "__defaults__", (0.3,))
    monkeypatch.setattr(port_test.of_several, "__defaults__", (0.3,))


def test_the_ports_of_each_run_are_tried_once(tmp_path: Path) -> None:
    with deaf_port("127.0.0.2") as deaf:
        definition = {
            "hosts": HOSTS,
            "worker": 1,
            "peer_port": free_port("127.0.0.2"),
            "coordinator_port": deaf,
            "needs_tpu": "false",
        }
        for name in ("a", "b"):
            (tmp_path / f"{name}.json").write_text(json.dumps(definition))
            (tmp_path / f"{name}.env.json").write_text("{}")
        (tmp_path / "alone.json").write_text(json.dumps({**definition, "hosts": HOSTS[:1]}))
        found = gather.peer_ports(Place(runs_dir=str(tmp_path), state_dir=str(tmp_path)))
    blocked = [[0, deaf, "timeout", "TPU_FLEET_COORDINATOR"]]
    told = {"worker": 1, "hosts": HOSTS, "network": "", "tried": 2, "blocked": blocked}
    assert found == {"a": told, "b": told}


def test_without_a_run_the_usual_ports_are_tried(tmp_path: Path) -> None:
    place = Place(runs_dir=str(tmp_path), state_dir=str(tmp_path), hosts=tuple(HOSTS), worker=1)
    found = gather.peer_ports(place)
    assert (found[""]["tried"], found[""]["blocked"]) == (2, [])
    assert gather.peer_ports(Place(runs_dir=str(tmp_path))) == {}


@pytest.mark.parametrize(
    ("status", "is_quiet"),
    [
        ({"state": "running", "first_step": 0, "first_step_at": 10.0, "step": 5, "step_at": 20}, 1),
        ({"state": "failed", "first_step": 0, "first_step_at": 10.0, "step": 5, "step_at": 20}, 0),
        ({"state": "running", "first_step": 0, "first_step_at": "x", "step": 5, "step_at": 20}, 0),
        ({"state": "running"}, 0),
    ],
)
def test_a_run_that_makes_no_step_is_seen(status: dict[str, object], is_quiet: int) -> None:
    assert (gather._quiet(status) is not None) == bool(is_quiet)
