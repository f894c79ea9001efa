"""The program that reports runs to Prometheus, with files of its own in place of a machine's."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import beside
import pytest
from monitoring_port import serving

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = ROOT / "roles" / "tpu_metrics" / "files" / "tpu-fleet-metrics.py"


@pytest.fixture(scope="module")
def program() -> Any:
    return beside.load(PROGRAM, "tpu_fleet_metrics")


class Machine:
    """A folder of state, and the page that is made of it."""

    def __init__(self, program: ModuleType, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.more: dict[str, Any] = {}

    def status(self, run: str, content: str | dict[str, Any]) -> None:
        path = self.folder / "runs" / run / "status.json"
        path.parent.mkdir(parents=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def metrics(self) -> dict[str, str]:
        config = {
            "state_dir": str(self.folder),
            "spare_dir": str(self.folder / "spare"),
            "output": str(self.folder / "out.prom"),
            "labels": {"slice": "pair", "worker": "1"},
            **self.more,
        }
        (self.folder / "config.json").write_text(json.dumps(config))
        self.program.main(str(self.folder / "config.json"))
        lines = (self.folder / "out.prom").read_text().splitlines()
        values = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert len(names) == len(set(names)), "each family once"
        return {key.replace('slice="pair",', ""): value for key, _, value in values}


@pytest.fixture
def machine(program: ModuleType, tmp_path: Path) -> Machine:
    return Machine(program, tmp_path)


def test_a_run_is_told_with_all_its_states(machine: Machine) -> None:
    machine.status("a", {"run": "a", "state": "running", "attempt": 3, "exit_code": None})
    found = machine.metrics()
    states = {key: value for key, value in found.items() if "run_state" in key}
    assert len(states) == 6
    assert [key for key, value in states.items() if value == "1"] == [
        'tpu_fleet_run_state{run="a",state="running",worker="1"}'
    ]
    assert found['tpu_fleet_run_attempt{run="a",worker="1"}'] == "3"
    assert found['tpu_fleet_run_restarts{run="a",worker="1"}'] == "2"
    assert not [key for key in found if "exit_code" in key]


def test_the_newest_checkpoint_is_told_with_its_time(machine: Machine) -> None:
    bucket = {"name": "100", "step": 100, "bytes": 30, "note": "", "lists": 4}
    machine.status("a", {"run": "a", "state": "running", "saved_at": 1796.25, "bucket": bucket})
    found = {key: v for key, v in machine.metrics().items() if "checkpoint" in key}
    assert found == {
        'tpu_fleet_run_checkpoint_timestamp_seconds{run="a",worker="1"}': "1796.25",
        'tpu_fleet_run_checkpoint_step{run="a",worker="1"}': "100",
        'tpu_fleet_run_checkpoint_bytes{run="a",worker="1"}': "30",
    }


@pytest.mark.parametrize("saved", [None, 0, "1796", True])
@pytest.mark.parametrize("bucket", [None, {}, {"step": 100}, [100]])
def test_without_a_checkpoint_there_is_no_time(
    machine: Machine, saved: object, bucket: object
) -> None:
    machine.status("a", {"run": "a", "state": "running", "saved_at": saved, "bucket": bucket})
    assert not [key for key in machine.metrics() if "checkpoint" in key]


@pytest.mark.parametrize("content", ["", "{", "[]", '"text"'])
def test_a_broken_status_is_told_and_hides_nothing_else(machine: Machine, content: str) -> None:
    machine.status("broken", content)
    machine.status("whole", {"run": "whole", "state": "failed", "exit_code": 2})
    found = machine.metrics()
    assert found['tpu_fleet_run_status_readable{run="broken",worker="1"}'] == "0"
    assert found['tpu_fleet_run_exit_code{run="whole",worker="1"}'] == "2"


def test_names_cannot_break_the_page(machine: Machine) -> None:
    machine.status("odd", {"run": 'a"} 1\nb', "state": "new\\state"})
    found = machine.metrics()
    assert 'tpu_fleet_run_state{run="a\\"} 1\\nb",state="new\\\\state",worker="1"}' in found


def test_chips_are_reported_while_a_program_holds_them(machine: Machine) -> None:
    root = machine.folder / "root"
    (root / "dev").mkdir(parents=True)
    (root / "proc/7/fd").mkdir(parents=True)
    with serving() as port:
        machine.more = {"root": str(root), "chips_port": port.port}
        assert machine.metrics()['tpu_fleet_chips{worker="1"}'] == "0"
        (root / "dev/accel0").touch()
        (root / "proc/7/fd/3").symlink_to(root / "dev/accel0")
        found = machine.metrics()
        assert found['tpu_fleet_chips{worker="1"}'] == "1"
        assert found['tpu_fleet_chip_duty_cycle_percent{device="1",worker="1"}'] == "96.0"
        port.how = "numbers"
        found = machine.metrics()
    assert found['tpu_fleet_chips_readable{worker="1"}'] == "0"
    assert not [key for key in found if key.startswith("tpu_fleet_chip_")]


def test_libtpu_of_each_environment_and_disks(machine: Machine) -> None:
    venvs = machine.folder / "venvs"
    venvs.mkdir()
    (venvs / "jax.json").write_text(json.dumps({"packages": {"libtpu": "0.0.42"}}))
    (venvs / "plain.json").write_text(json.dumps({"packages": {}}))
    machine.more = {"disks": ["/", "/no-such-disk"]}
    found = machine.metrics()
    assert found['tpu_fleet_libtpu_info{venv="jax",version="0.0.42",worker="1"}'] == "1"
    assert int(found['tpu_fleet_disk_free_bytes{path="/",worker="1"}']) > 0
    assert not [key for key in found if "no-such-disk" in key or "plain" in key]


def test_ready_is_this_boot_and_no_other(machine: Machine) -> None:
    assert machine.metrics()['tpu_fleet_ready{worker="1"}'] == "0"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    (machine.folder / "ready").write_text(boot)
    assert machine.metrics()['tpu_fleet_ready{worker="1"}'] == "1"


def test_while_the_disk_is_full_the_status_is_elsewhere(machine: Machine) -> None:
    machine.status("big", {"run": "big", "state": "running", "serial": 4})
    newer = machine.folder / "spare" / "big" / "status.json"
    newer.parent.mkdir(parents=True)
    newer.write_text(json.dumps({"run": "big", "state": "failed", "serial": 5}))
    found = machine.metrics()
    states = {key: value for key, value in found.items() if key.startswith("tpu_fleet_run_state{")}
    assert [key for key, value in states.items() if value == "1"] == [
        'tpu_fleet_run_state{run="big",state="failed",worker="1"}'
    ]
    newer.write_text("half of")
    assert found | machine.metrics() != found, "what can be read counts"


def test_the_time_of_an_attempt_is_told_by_its_parts(machine: Machine) -> None:
    parts, kinds = {"wait": 2.5, "compile": 20.0}, {"step": 60.0, "save": True, "data": "x"}
    machine.status("a", {"run": "a", "state": "running", "start_parts": parts, "inside": kinds})
    machine.status("b", {"run": "b", "state": "running", "start_parts": [], "inside": None})
    found = {
        key: v for key, v in machine.metrics().items() if "_seconds{" in key and "age" not in key
    }
    assert {key: v for key, v in found.items() if "tpu_fleet_run" in key} == {
        'tpu_fleet_run_start_seconds{part="compile",run="a",worker="1"}': "20.0",
        'tpu_fleet_run_start_seconds{part="wait",run="a",worker="1"}': "2.5",
        'tpu_fleet_run_attempt_seconds{kind="step",run="a",worker="1"}': "60.0",
    }
