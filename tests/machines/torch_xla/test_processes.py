"""The torch_xla example, killed and asked to stop, ends as if nothing had been."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from torch_xla_gang import EVERY, Gang


def wait_for(gang: Gang, words: str, seconds: float = 300) -> None:
    """Wait until worker 0 has said something."""
    deadline = time.monotonic() + seconds
    while not re.search(words, gang.log(0)):
        assert time.monotonic() < deadline, gang.log(0)
        assert all(program.poll() is None for program in gang.programs), gang.log(0)
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("workers", "xla"), [(1, True), (2, True), (2, False)], ids=["one", "two", "two, without XLA"]
)
def test_the_final_parameters_do_not_tell_what_happened(
    gang: Callable[..., Gang], undisturbed: Callable[..., dict[str, Any]], workers: int, xla: bool
) -> None:
    disturbed = gang(workers, xla)
    disturbed.start("--step-seconds 0.02")
    wait_for(disturbed, r"step 80 loss")
    disturbed.programs[-1].kill()
    codes = disturbed.wait()
    # The others do not wait for one that is gone.
    assert codes == [-signal.SIGKILL] if workers == 1 else codes[0] == 1

    disturbed.start("--step-seconds 0.02")
    wait_for(disturbed, r"step 160 loss")
    # One of them is told; all stop after the same step.
    disturbed.programs[-1].send_signal(signal.SIGTERM)
    assert disturbed.wait() == [143] * workers
    saved = {
        re.findall(r"asked to stop, saved step (\d+)", disturbed.log(worker))[-1]
        for worker in range(workers)
    }
    (stopped,) = map(int, saved)
    kept = [path.name for path in (disturbed.folders[0] / "steps").iterdir()]
    assert len(kept) == 3
    assert f"{stopped}.pt" in kept

    disturbed.start()
    assert disturbed.wait() == [0] * workers, disturbed.log(0)
    for worker in range(workers):
        begun = re.findall(r"attempt (\d) begins at step (\d+)", disturbed.log(worker))
        assert [attempt for attempt, _step in begun] == ["1", "2", "3"]
        killed = int(begun[1][1])
        assert (killed % EVERY, killed >= 3 * EVERY) == (0, True)
        assert [int(step) for _attempt, step in begun] == [0, killed, stopped]
    assert disturbed.finals() == [undisturbed(workers, xla)] * workers
    assert undisturbed(workers, xla)["process_count"] == workers
