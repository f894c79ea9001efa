"""Two runs train while everything around them breaks, at random, without any help.

At the end nothing may tell it: the parameters are those of an undisturbed run, bit for bit.

    TPU_FLEET_CHAOS_MINUTES=20 TPU_FLEET_CHAOS_SEED=7 .venv/bin/pytest tests/worlds/chaos

The slices are containers: one saves on a data disk, the four workers of the other with Orbax in a
bucket, and note what they did in a folder of the local cloud that stands for NFS. The healer is
`tpu-fleet watch` as a process. The plan of the faults follows from the seed; when each is done,
also from how long the ones before took.
"""

from __future__ import annotations

import pytest

from chaos import plan
from chaos.conduct import Conductor
from chaos.field import Field

WHOLE = 20.0


def test_two_runs_come_through_everything(
    fleet: Field, seed: int, minutes: float, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(text: str) -> None:
        # scripts/run_tests.py shows it.
        with capsys.disabled():
            print(f"note: {text}", flush=True)

    say(f"TPU_FLEET_CHAOS_SEED={seed} TPU_FLEET_CHAOS_MINUTES={minutes:g}")
    faults = plan.make(seed, minutes)
    with fleet.healed():
        outcome = Conductor(fleet, faults, say).run(minutes)
    for line in outcome.notes():
        say(line)
    assert not outcome.broken, "\n".join(outcome.broken)
    missing = [str(shot.fault) + ": " + shot.error for shot in outcome.shots if not shot.happened]
    kinds = {(shot.fault.lane, shot.fault.kind) for shot in outcome.shots if shot.happened}
    assert kinds == {(fault.lane, fault.kind) for fault in faults}, missing
    if minutes >= WHOLE:
        assert kinds == {(lane, k.name) for lane in plan.LANES for k in plan.LANES[lane]}
