"""The last report of each worker."""

from __future__ import annotations

from dataclasses import replace

from run_agent.decide.gang_state import RUNNING, Gang, Policy, Report
from run_agent.decide.inbox import Inbox

BEFORE = Gang("def", "id", phase=RUNNING, attempt=3, owner="me")


def test_an_older_report_overtakes_no_newer_one() -> None:
    policy = Policy("def", 2, retries=1, fail_fast_seconds=1, lost_seconds=30)
    inbox = Inbox(policy, now=0.0)
    new = Report(1, "boot", "def", program="exited", sent=5.0)
    inbox.take(new, 10.0)
    inbox.take(replace(new, program="running", sent=4.0), 11.0)
    seen = inbox.seen(BEFORE, 12.0)
    assert seen[1] == (new, 2.0)
    assert seen[0][0].program == "running"  # not heard yet, and not lost yet
    inbox.take(replace(new, boot_id="next", sent=1.0), 13.0)
    assert inbox.seen(BEFORE, 13.0)[1][0].boot_id == "next"
    assert 0 not in inbox.seen(BEFORE, 31.0)
