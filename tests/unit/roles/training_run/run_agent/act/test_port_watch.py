"""When the ports between the workers are tested, and for how long what was found is said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ports import deaf_port, free_port
from run_agent.act import port_test
from run_agent.act.port_watch import PortWatch
from run_agent.decide import config
from run_agent.decide.config import Config
from run_definition import PUBLIC

HOSTS = ["127.0.0.2", "127.0.0.3"]
STEPPED = [{"start": 0.0, "first_step_at": 100.0}]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_test.PortTest.__init__, "__defaults__", (0.2,))


def config_of(folder: Path, worker: int = 1, **more: Any) -> Config:
    paths = {"records": str(folder), "root": str(folder / "no-chips")}
    told = {**PUBLIC, "hosts": HOSTS, "worker": worker, "needs_tpu": "false", **more}
    return config.parse({**told, "paths": {**PUBLIC.get("paths", {}), **paths}}, {})


def result_of(watch: PortWatch) -> list[list[Any]]:
    deadline = time.monotonic() + 10
    while watch.for_report()["testing"] and time.monotonic() < deadline:
        watch.look(all_here=True)
        time.sleep(0.02)
    return list(watch.for_report()["unreached"])


def test_the_first_attempt_waits_for_all_workers_and_for_the_test(tmp_path: Path) -> None:
    with deaf_port("127.0.0.2") as deaf:
        watch = PortWatch(config_of(tmp_path, coordinator_port=deaf), attempts=0)
        watch.look(all_here=False)
        assert watch.for_report() == {"testing": True, "unreached": []}
        assert result_of(watch) == [[0, deaf, "timeout", "TPU_FLEET_COORDINATOR"]]
        assert watch.for_report()["testing"] is False


def test_a_later_attempt_or_one_worker_waits_for_no_test(tmp_path: Path) -> None:
    assert PortWatch(config_of(tmp_path), attempts=3).testing is False
    assert PortWatch(config_of(tmp_path, hosts=HOSTS[:1], worker=0), attempts=0).testing is False


def test_worker_0_has_nothing_to_try(tmp_path: Path) -> None:
    watch = PortWatch(config_of(tmp_path, worker=0), attempts=0)
    watch.look(all_here=True)
    assert watch.for_report() == {"testing": False, "unreached": []}


def test_a_late_start_is_tested_again_and_again_later(tmp_path: Path) -> None:
    with deaf_port("127.0.0.2") as deaf:
        watch = PortWatch(config_of(tmp_path, coordinator_port=deaf), attempts=1)

        def look(now: float, age: float | None, history: list[dict[str, Any]]) -> int:
            watch.look_at_start(now, age, history)
            deadline = time.monotonic() + 2
            while watch._test is not None and time.monotonic() < deadline:
                watch.look(all_here=True)
                time.sleep(0.02)
            return len(watch.found)

        assert look(0.0, 150.0, STEPPED) == 0  # it is not late yet
        assert look(0.0, 250.0, STEPPED) == 1
        watch.found = []
        assert look(30.0, 280.0, STEPPED) == 0  # a minute passes between two tests
        assert look(70.0, 320.0, STEPPED) == 1
        # A step ends what was said, and so does time where no step is known.
        assert look(80.0, None, STEPPED) == 0
        assert look(0.0, 2000.0, []) == 0


def test_a_leader_that_is_not_there_is_looked_for(tmp_path: Path) -> None:
    def found(port: int) -> str:
        watch = PortWatch(config_of(tmp_path, peer_port=port), attempts=1)
        watch.look_for_leader(100.0)
        deadline = time.monotonic() + 5
        while watch._test is not None and time.monotonic() < deadline:
            watch.look(all_here=False)
            time.sleep(0.02)
        assert watch.for_report()["unreached"] == []
        return watch.leader_found

    closed = free_port("127.0.0.2")
    assert found(closed) == f"no run agent listens on worker 0:{closed}"
    with deaf_port("127.0.0.2") as deaf:
        assert found(deaf) == (
            f"worker 0:{deaf} does not answer: its machine is down, or a firewall is in between"
        )
