"""When an agent looks at the monitoring port of its program."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from monitoring_port import Port, serving
from run_agent.act import chip_monitor
from run_agent.act.chip_watch import ChipWatch
from waiting import PATIENCE


@pytest.fixture(name="port")
def _port(monkeypatch: pytest.MonkeyPatch) -> Iterator[Port]:
    # Without the product's limit of time, which a busy computer exceeds.
    monkeypatch.setattr(chip_monitor, "look", partial(chip_monitor.look, seconds=PATIENCE))
    with serving() as port:
        yield port


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/accel0").touch()
    return tmp_path


def duty(watch: ChipWatch, now: float, running: bool = True) -> float | None:
    watch.look(now, running)
    watch.wait()
    return watch.found and watch.found["duty_cycle"]


def test_it_looks_now_and_then_while_the_program_runs(root: Path, port: Port) -> None:
    watch = ChipWatch(getpass.getuser(), 15.0, root, port.port)
    assert duty(watch, 100.0, running=False) is None
    assert duty(watch, 101.0) == 96.0
    port.fault("core_lags", 1)
    assert duty(watch, 115.0) == 96.0
    assert duty(watch, 116.0) == 0.0
    assert duty(watch, 117.0, running=False) is None
    port.faults.clear()
    assert duty(watch, 118.0) == 96.0


def test_an_error_of_a_core_is_seen(root: Path, port: Port) -> None:
    watch = ChipWatch(getpass.getuser(), 15.0, root, port.port)
    duty(watch, 100.0)
    assert watch.error == ""
    port.fault("core_error", 1, core=1, message="HBM uncorrectable ECC error")
    duty(watch, 116.0)
    assert watch.error == "core 1: HBM uncorrectable ECC error"
    duty(watch, 117.0, running=False)
    assert watch.error == ""


def test_a_machine_without_chips_is_not_asked(tmp_path: Path, port: Port) -> None:
    assert duty(ChipWatch(getpass.getuser(), 15.0, tmp_path, port.port), 100.0) is None


def test_a_silent_port_keeps_no_agent_waiting(root: Path, port: Port) -> None:
    port.how = "silent"
    watch = ChipWatch(getpass.getuser(), 0.0, root, port.port)
    watch.look(100.0, running=True)
    first = watch._thread
    watch.look(101.0, running=True)
    assert watch._thread is first, "the next look waits for this one"
    port.server.stop()
    watch.wait()
    assert watch.found is None


def test_a_user_who_is_gone_has_no_port(root: Path, port: Port) -> None:
    watch = ChipWatch("nobody-of-this-name", 15.0, root, port.port)
    # Of root alone a port would count.
    assert duty(watch, 100.0) == (96.0 if os.getuid() == 0 else None)
