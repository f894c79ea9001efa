"""What libtpu's monitoring port says, and what is refused of it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import chip_monitor
from monitoring_port import Port, serving
from waiting import PATIENCE

GIB = 1 << 30


@pytest.fixture(name="port", scope="module")
def _port() -> Iterator[Port]:
    with serving() as port:
        yield port


@pytest.fixture(autouse=True)
def _well(port: Port) -> Iterator[None]:
    yield
    port.how = ""
    port.faults.clear()


def look(port: Port, hlo: bool = True) -> dict[str, Any]:
    """Look without the product's limit of time, which a busy computer exceeds."""
    return chip_monitor.look({os.getuid()}, port.port, PATIENCE, hlo)


def test_metrics_and_cores_of_a_program_that_works(port: Port) -> None:
    said = look(port)
    assert said["reached"] is True
    assert said["metrics"] == {
        "duty_cycle_percent": {0: 96.0, 1: 96.0},
        "memory_used_bytes": {0: 20 * GIB, 1: 20 * GIB},
        "memory_bytes": {0: 32 * GIB, 1: 32 * GIB},
        "idle_seconds": {0: 0.0, 1: 0.0},
    }
    assert chip_monitor.figures({os.getuid()}, port.port, PATIENCE) == said["metrics"]
    core = said["cores"][1]
    program = core["program"]
    assert len(program) == 32
    assert core == {
        "core": 1, "chip": 1, "state": "running", "run_id": 10_812, "launch_id": 812,
        "program": program, "hlo": "fusion.7 (train_step)", "error": None,
        "queued": [{"run_id": 10_813, "launch_id": 813, "program": program}],
    }  # fmt: skip
    assert look(port, hlo=False)["cores"][1]["hlo"] is None


@pytest.mark.parametrize(
    ("kind", "worker", "wanted"),
    [
        ("core_stuck", 1, [("running", 812, "fusion.7"), ("running", 812, "all-reduce.3")]),
        ("core_stuck", 0, [("running", 812, "all-reduce.3"), ("running", 812, "all-reduce.3")]),
        ("core_lags", 1, [("idle", 811, None), ("idle", 811, None)]),
        ("core_lags", 0, [("running", 812, "all-reduce.3"), ("running", 812, "all-reduce.3")]),
        ("core_error", 1, [("error", 812, "fusion.7"), ("running", 812, "all-reduce.3")]),
    ],
)
def test_a_fault_of_one_worker(
    port: Port, kind: str, worker: int, wanted: list[tuple[str, int, str | None]]
) -> None:
    port.fault(kind, worker)
    port.now += 60
    said = look(port)
    port.now -= 60
    seen = [
        (core["state"], core["launch_id"], core["hlo"] and core["hlo"].split()[0])
        for core in said["cores"]
    ]
    assert seen == wanted
    lags = kind == "core_lags" and worker == 1
    assert said["metrics"]["duty_cycle_percent"][1] == (0.0 if lags else 96.0)
    assert said["metrics"]["idle_seconds"][1] == (60.0 if lags else 0.0)


def test_the_error_of_a_core(port: Port) -> None:
    port.fault("core_error", 1, core=1, message="HBM: an uncorrectable error")
    said = look(port)["cores"]
    assert [core["error"] for core in said] == [None, "HBM: an uncorrectable error"]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("numbers", "its duty_cycle_percent is nan, not from 0 to 100"),
        ("huge", "it says more than 1048576 bytes"),
        ("garbage", "its answer is no message of the runtime"),
        ("silent", "it does not answer within 0.3 s"),
    ],
)
def test_what_no_runtime_says_is_refused(port: Port, how: str, why: str) -> None:
    port.how = how
    seconds = 0.3 if how == "silent" else 20.0
    assert chip_monitor.look({os.getuid()}, port.port, seconds) == {"reached": True, "refused": why}
    assert chip_monitor.figures({os.getuid()}, port.port, seconds) == {}


def test_a_hostile_text_is_cut_and_harmless(port: Port) -> None:
    port.how = "text"
    (core,) = look(port)["cores"]
    assert len(core["error"]) == 300
    assert core["error"].startswith("[2J ]0;owned xxx")


def test_nothing_listens() -> None:
    assert chip_monitor.look({os.getuid()}, 1) == {"reached": False}
    assert chip_monitor.figures({os.getuid()}, 1) == {}


def test_the_port_of_another_user_does_not_count(port: Port) -> None:
    assert chip_monitor.figures({os.getuid() + 1}, port.port) == {}
    said = chip_monitor.look({os.getuid() + 1}, port.port)
    assert said["refused"] == f"{getpass.getuser()} has the port, who has no part in it"


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


@pytest.mark.parametrize(
    "answer",
    [
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of more than 64 bits
        b"\x0a\x05ab",  # shorter than it says
        b"\x0b",  # a group
        b"\x08\x01",  # a number where a message stands
        _field(1, _field(3, _field(3, b"\x0a\x01x"))),  # a text where a double stands
        _field(1, _field(3, _field(3, b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))),  # -1
        _field(1, _field(3, b"") * 65),  # more devices than a machine has
    ],
)
def test_a_metric_that_is_none_is_refused(answer: bytes) -> None:
    with pytest.raises(chip_monitor.Refused):
        chip_monitor.metric("memory_bytes", answer)


def test_a_core_that_is_none_is_refused() -> None:
    entry = _field(2, b"\x08\x00" + _field(2, b"\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
    with pytest.raises(chip_monitor.Refused, match="-1, not a whole number from 0"):
        chip_monitor.cores(entry)
