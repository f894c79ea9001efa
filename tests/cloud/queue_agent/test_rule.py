"""A person's program that stops arms of a sweep, beside agents as processes."""

from __future__ import annotations

import pwd
import sys
from typing import Any

import pytest

harness = sys.modules["queue_agent_harness"]
wait_until = harness.wait_until
RULE = """
import getpass, json, os, sys
asked = json.load(sys.stdin)
print("nothing of this sweep")
losses = [arm["loss"] for arm in asked["arms"] if arm["state"] == "done"]
for arm in asked["arms"]:
    if losses and arm["state"] != "done":
        best = f"{min(losses)} is better than that of {arm['parameters']['lr']}"
        print(arm["name"], best, "by", getpass.getuser(), os.geteuid())
"""
WORST = """
import json, sys
losses = {arm["loss"]: arm["name"] for arm in json.load(sys.stdin)["arms"] if arm["loss"]}
if len(losses) == 2:
    print(losses[max(losses)], max(losses), "is the worst")
"""
PROGRAM = """
echo "{\\"step\\": 5, \\"loss\\": $LOSS}" > "$TPU_FLEET_PROGRESS"
echo begun
[ $LOSS = 0.25 ] && { sleep 2; exit 0; }
exec sleep 1000
"""


def sweep(lab: Any, name: str, losses: list[float], rule: str) -> None:
    for number, loss in enumerate(losses, 1):
        lab.submit(
            f"{name}-{number}",
            f"LOSS={loss}\n{PROGRAM}",
            files={"rule.py": rule},
            user=harness.OTHER,
            sweep=name,
            parameters={"lr": f"1e-{number}"},
            submitted_at=1764413259.0,
        )


def test_the_end_of_an_arm_stops_those_that_are_named(lab: Any) -> None:
    """As the run's user, who is not root, in the folder of the run's code."""
    rule = {"command": ["python3", "-I", "rule.py"], "every": 300.0}
    workers = [*lab.slice("solo", on_result=rule), *lab.slice("other", on_result=rule)]
    sweep(lab, "lr", [0.25, 2, 3], RULE)
    last = lab.wait("lr-1", "done", 30)
    assert (last.step, last.loss) == (5, 0.25)
    for number in (2, 3):
        run = lab.wait(f"lr-{number}", "stopped")
        user = pwd.getpwnam(harness.OTHER)
        assert run.reason == (
            f"stopped by on_result: 0.25 is better than that of 1e-{number} "
            f"by {user.pw_name} {user.pw_uid}"
        )
    log = "".join((worker.root / "queue-agent.log").read_text() for worker in workers)
    assert "on_result beside lr-1: 'nothing' is no arm of the sweep" in log
    assert "on_result beside lr-1: stops lr-3" in log


# In CI the rule is asked at the end of an arm.
@pytest.mark.night
def test_it_is_asked_while_an_arm_runs_and_sees_how_far_all_are(lab: Any) -> None:
    rule = {"command": ["python3", "-I", "rule.py"], "every": 3.0}
    lab.slice("solo", on_result=rule)
    lab.slice("other", on_result=rule)
    sweep(lab, "wd", [2, 3], WORST)
    assert lab.wait("wd-2", "stopped").reason == "stopped by on_result: 3.0 is the worst"
    assert lab.state("wd-1").state == "running"
