"""What a program prints when its chips do not initialise, and what is no word about them."""

from __future__ import annotations

import pytest
from run_agent.decide import chips

BUSY = (
    "jax.errors.JaxRuntimeError: UNKNOWN: TPU initialization failed: open(/dev/vfio/0): Device or "
    "resource busy: Device or resource busy; Couldn't open iommu group /dev/vfio/0"
)
VICTIM = (
    "absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): "
    "/job:jax_worker/replica:0/task:3 RPC: /tensorflow.CoordinationService/PollForError"
)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (BUSY, "TPU initialization failed: open(/dev/vfio/0): Device or resource busy"),
        ("Couldn't open iommu group /dev/vfio/1", "Couldn't open iommu group /dev/vfio/1"),
        ("RuntimeError: TPU initialization failed: TPU_RET_CHECK failure", "TPU initialization"),
        ("E0101 Failed to initialize TPU system with error: INTERNAL", "Failed to initialize TPU"),
        (VICTIM, ""),
        ("TPU initialization failed: Invalid --slice_builder_worker_addresses specified.", ""),
        ("TPU initialization failed: Failed to get global TPU topology.", ""),
        ("The TPU is already in use by process 7; TPU initialization failed", ""),
        ("open(/dev/vfio/0): Permission denied", ""),
        ("Unable to initialize backend 'tpu': NOT_FOUND: no libtpu", ""),
        ("step 7 loss 0.3", ""),
    ],
)
def test_which_lines_are_about_chips(line: str, said: str) -> None:
    found = chips.said(["begin", line, "Traceback", "end"])
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_a_text_of_the_program_is_one_short_line() -> None:
    assert len(chips.said([f"TPU initialization failed: {'x' * 5000}\x1b[2J"])) == 200
    assert chips.said([]) == ""


@pytest.mark.parametrize(
    ("opened", "shut"),
    [
        ({0: True, 1: False, 2: True}, [1]),
        ({0: True, 1: False, 2: None}, []),
        ({0: False, 1: False, 2: True}, []),
        ({0: False}, []),
        ({0: True, 1: True}, []),
    ],
)
def test_one_worker_alone_has_not_opened_its_chips(
    opened: dict[int, bool | None], shut: list[int]
) -> None:
    assert [worker for worker in opened if chips.shut(opened, worker)] == shut


def test_starts_are_counted_for_a_day() -> None:
    times = chips.counted({}, [2], 1000.0)
    times = chips.counted(times, [2], 2000.0)
    assert times == {"2": [1000.0, 2000.0]}
    assert chips.counted(times, [], 1500.0 + chips.WINDOW) == {"2": [2000.0]}
    assert chips.counted(times, [], 2001.0 + chips.WINDOW) == {}
    many = {"1": [float(n) for n in range(100)]}
    assert len(chips.counted(many, [1], 100.0)["1"]) == 2 * chips.MOST + 1
