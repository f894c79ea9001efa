"""Chips of one worker that do not initialise: named, counted, and no failure of the program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
BUSY = "UNKNOWN: TPU initialization failed: open(/dev/vfio/0): Device or resource busy"
# The victim ends first, as where JAX's coordinator notices that a peer is gone.
PROGRAM = f"""
[ -e {{well}} ] && exec sleep 1000
if [ "$TPU_FLEET_WORKER" = 1 ]; then echo "{BUSY}"; exit 1; fi
echo "RPC: /tensorflow.CoordinationService/PollForError"
exit 1
"""


def test_they_are_named_and_their_starts_counted(gang: Make, tmp_path: Any) -> None:
    well = tmp_path / "well"
    workers = gang(PROGRAM.format(well=well), retries=0, needs_tpu="true")
    for worker in workers:
        worker.up()
    told = f"worker 1: its chips did not initialise: {BUSY.partition(': ')[2]}"
    harness.wait_until(lambda: told in workers[0].status().get("reason", ""), told)

    def times() -> int:
        return int((workers[1].status().get("bad_chips") or {}).get("times", 0))

    harness.wait_until(lambda: times() >= 2, "two starts that they failed")
    assert workers[1].status()["bad_chips"]["said"] == BUSY.partition(": ")[2]
    assert workers[0].status()["bad_chips"] is None
    assert json.loads((workers[0].folder / "state/gang.json").read_text())["failures"] == []
    well.touch()
    attempt = harness.wait_until(lambda: workers[0].status().get("attempt", 0), "an attempt")
    harness.wait_until(lambda: workers[1].status().get("state") == "running", f"after {attempt}")
