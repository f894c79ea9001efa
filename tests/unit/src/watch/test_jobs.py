"""What a playbook gets, and what is understood of its events."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tpu_fleet.watch.decide import Job
from tpu_fleet.watch.jobs import (
    BOOK,
    Jobs,
    Running,
    _words_of,
    end_left_over,
    limit_of,
    outcome_of,
    take,
    variables_of,
)


def running(**fields: Any) -> Running:
    return Running(Job(("pair",), (), **fields), Path("log"), 0.0)


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"event": kind, "pid": 42, "stdout": f"\x1b[0;31m{kind} says\x1b[0m", "event_data": data}


@pytest.mark.parametrize(
    ("job", "limit", "variables"),
    [
        (Job(("pair", "v6e-a"), ()), "localhost,tpu-fleet-nobody,tpu_slice_pair,tpu_slice_v6e_a",
         {"fleet_wait": "none"}),
        (Job(("pair",), (), api=False), "tpu_slice_pair", {"fleet_wait": "none"}),
        (Job(("pair",), (), asks=True), "localhost,tpu-fleet-nobody,tpu_slice_pair",
         {"fleet_wait": "next"}),
        (Job((), (), asks=True), "localhost,tpu-fleet-nobody", {"fleet_wait": "next"}),
    ],
)  # fmt: skip
def test_what_a_playbook_is_told(job: Job, limit: str, variables: dict[str, Any]) -> None:
    assert limit_of(job) == limit
    always = {
        "workers_of": list(job.slices),
        # No token for keys keeps a slice away.
        "fleet_github_later": True,
    }
    assert variables_of(job) == {**always, **variables}


def test_a_slice_with_bad_chips_is_recreated_by_a_playbook_of_its_own() -> None:
    job = Job(("pair",), (), bad_chips="u1")
    assert limit_of(job) == "localhost,tpu-fleet-nobody,tpu_slice_pair"
    told = {"bad_chips": "pair", "bad_chips_node": "u1", "fleet_github_later": True}
    assert (variables_of(job), job.takes_away) == (told, True)


def test_who_shares_a_folder_with_a_slice_that_is_made_anew_lets_its_workers_in() -> None:
    job = Job(("pair",), (), api=False)
    assert limit_of(job, ("files",)) == "tpu_slice_pair,tpu_slice_files"


def test_the_part_on_the_controller_ends_with_the_first_play_on_workers() -> None:
    one = running()
    take(one, event("playbook_on_play_start", pattern="localhost"))
    assert one.on_controller
    take(one, event("playbook_on_play_start", pattern="tpu"))
    assert (one.on_controller, one.pid) == (False, 42)


def test_a_playbook_is_in_vain_when_its_slices_were_lost_since_it_works_on_them() -> None:
    jobs = Jobs(Path(), lambda: None)
    one = running(asks=True)
    jobs.running = [one]
    # It was lost before, and the playbook is just getting it again.
    assert jobs.in_vain({"pair"}, 1e12) == []
    take(one, event("playbook_on_play_start", pattern="tpu"))
    since = one.hosts_since
    assert jobs.in_vain({"pair"}, since - 1) == []
    assert jobs.in_vain({"pair", "solo"}, since + 1) == [one]
    assert jobs.in_vain({"solo"}, since + 1) == []
    jobs.running = [Running(Job((), ()), Path("log"), 0.0, hosts_since=0.0)]
    assert jobs.in_vain({"pair"}, 1.0) == []


def test_how_it_ended() -> None:
    one = running()
    failed = {"host": "pair-w1", "task": "Wait", "res": {"msg": "no login"}}
    take(one, event("runner_on_failed", **failed, ignore_errors=True))
    assert one.failures == []
    take(one, event("runner_on_unreachable", **failed))
    take(one, event("playbook_on_stats", processed={"localhost": 1, "pair-w0": 1, "pair-w1": 1},
                    failures={}, dark={"pair-w1": 1}))  # fmt: skip
    found = outcome_of(one, 4)
    assert found.hosts == {"pair-w0": True, "pair-w1": False}
    assert (found.kind, found.says(), found.code) == ("", "pair-w1: Wait: no login", 4)
    assert (found.says("pair"), found.says("solo")) == ("pair-w1: Wait: no login", "")
    assert "playbook_on_stats says" in found.log


def test_machines_that_apply_the_roles_to_themselves_took_part() -> None:
    one = running()
    res = {"hosts": {"pair-w0": {}, "pair-w1": {}, "pair-w2": {}}, "failures": {"pair-w2": {}}}
    applied = {"host": "pair-w0", "task_action": "tpu.fleet.apply"}
    take(one, event("runner_on_ok", **applied, res=res))
    # Ansible itself knows only the host whose task it was.
    take(one, event("playbook_on_stats", processed={"pair-w0": 1}, failures={}, dark={}))
    assert outcome_of(one, 0).hosts == {"pair-w0": True, "pair-w1": True, "pair-w2": False}


def test_what_github_could_not_be_asked_for_is_kept() -> None:
    one = running()
    keys = {"host": "localhost", "task_action": "tpu.fleet.github_key"}
    take(one, event("runner_on_ok", **keys, res={"waits": "There is no \x1b[2Jtoken."}))
    assert outcome_of(one, 0).waits == "There is no token."
    # What was asked last counts: perhaps GitHub was only away.
    take(one, event("runner_on_ok", **keys, res={"added": []}))
    assert outcome_of(one, 0).waits == ""


def test_the_kind_of_error_on_the_controller() -> None:
    one = running(asks=True)
    res = {"msg": "2 of 2 slices are not there", "kind": "timeout"}
    take(one, event("runner_on_failed", host="localhost", task="Get the slices", res=res))
    assert outcome_of(one, 2).kind == "timeout"
    assert outcome_of(running(), 1).kind == "failed"
    assert outcome_of(running(), 0).kind == ""


def test_only_our_playbooks_are_ended() -> None:
    sleep = "import time; print(1, flush=True); time.sleep(600)"
    ours = subprocess.Popen([sys.executable, "-c", sleep, BOOK], stdout=subprocess.PIPE)
    other = subprocess.Popen([sys.executable, "-c", sleep, "other"])
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    deaf = subprocess.Popen([sys.executable, "-c", ignore + sleep, BOOK], stdout=subprocess.PIPE)
    try:
        # A signal while Python starts may be lost.
        for process in (ours, deaf):
            assert process.stdout is not None
            assert process.stdout.readline() == b"1\n"
        pids = [str(ours.pid), str(other.pid), "999999999"]
        assert end_left_over(pids, seconds=60) == [ours.pid]
        assert ours.wait(20) not in (0, -signal.SIGKILL)
        assert end_left_over([str(deaf.pid)], seconds=1) == [deaf.pid]
        assert deaf.wait(20) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (ours, other, deaf):
            process.kill()
            process.wait(20)


@pytest.mark.parametrize("proc", ["/proc", "/no-proc-as-on-macos"])
def test_a_left_over_playbook_is_known_by_its_command_line(proc: str) -> None:
    words = [sys.executable, "-c", "print(flush=True); input()", BOOK]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as process:
        # Before it runs, the kernel may not have its words yet.
        assert process.stdout
        process.stdout.readline()
        assert BOOK in _words_of(process.pid, Path(proc))
        process.kill()
    assert _words_of(process.pid, Path(proc)) == []
