"""What is understood of a playbook's events; they are as real ones were recorded."""

from __future__ import annotations

from typing import Any

from tpu_fleet.workers.report import Failure, Report, grouped


def applied(report: Report, host: str, status: str = "ok", **more: Any) -> None:
    report.progress(
        {
            "event": "machine",
            "host": host,
            "slice": "pair",
            "status": status,
            "counts": {"ok": 5, "changed": 2},
            "roles": ["user_shell"],
            "reasons": ["user_shell: fleet_shell_theme changed"],
            "problem": "",
            "seconds": 3.1,
            **more,
        }
    )


def ansible(kind: str, action: str = "tpu.fleet.fleet", **data: Any) -> dict[str, Any]:
    return {
        "event": kind,
        "pid": 7,
        "stdout": "",
        "event_data": {
            "host": "localhost",
            "task": "Get the slices",
            "task_action": action,
            **data,
        },
    }


def test_a_machine_is_followed_from_role_to_role() -> None:
    report = Report()
    hosts = {"pair-w0": "pair", "pair-w1": "pair"}
    assert report.progress({"event": "called", "hosts": hosts}) == ["pair"]
    report.progress({"event": "at", "host": "pair-w0", "slice": "pair", "at": "python_env"})
    assert report.machines["pair-w0"].at == "python_env"
    assert not report.machines["pair-w1"].status
    applied(report, "pair-w0")
    # The keys of GitHub were applied in a call of their own.
    applied(report, "pair-w0", roles=["git_access"])
    one = report.machines["pair-w0"]
    assert (one.status, one.changed, one.roles) == ("ok", 4, ("user_shell", "git_access"))
    assert report.troubled == []


def test_failures_of_machines_are_reported_once() -> None:
    report = Report()
    failed = {"task": "tpu.fleet.python_env : Build", "why": "no room\nat all"}
    report.progress({"event": "failed", "host": "pair-w0", "slice": "pair", **failed})
    applied(report, "pair-w0", "failed")
    applied(report, "pair-w1", "unreachable", problem="pair-w1: No route to host")
    # Ansible fails the same machines again.
    for host in ("pair-w0", "pair-w1"):
        res = {"msg": "1 task failed (see above)"}
        report.event(ansible("runner_on_failed", "tpu.fleet.apply_verdict", host=host, res=res))
    assert report.failures == [
        Failure("pair-w0", "tpu.fleet.python_env : Build: no room\nat all"),
        Failure("pair-w1", "pair-w1: No route to host"),
    ]
    assert [one.host for one in report.troubled] == ["pair-w0", "pair-w1"]


def test_a_failure_of_this_computer_keeps_its_lines_and_one_that_is_ignored_is_none() -> None:
    report = Report()
    many = {"msg": "1 of 2 slices are not there:\n  big: refused\n"}
    report.event(ansible("runner_on_failed", res=many))
    report.event(ansible("runner_on_failed", res={"msg": "away"}, ignore_errors=True))
    assert report.failures == [Failure("localhost", many["msg"].strip())]


def test_what_is_changed_around_the_slices_is_noted() -> None:
    report = Report()
    done = {"changed": True, "task": "Create the data disks"}
    report.event(ansible("runner_on_ok", "tpu.fleet.around", res=done, task=done["task"]))
    report.event(ansible("runner_on_ok", "ansible.builtin.file", res={"changed": True}))
    said = {"msg": ["train (solo): failed"]}
    report.event(ansible("runner_on_ok", "ansible.builtin.debug", res=said))
    report.event(ansible("runner_on_ok", "ansible.builtin.debug", res={"msg": {"you": "ssh"}}))
    assert report.around == ["Create the data disks"]
    assert report.messages == ["train (solo): failed"]


def test_a_machine_that_is_pushed_to_is_counted_by_its_tasks() -> None:
    report = Report()
    report.progress({"event": "pushed", "host": "old", "slice": "old"})
    changed = {"host": "old", "role": "tpu.fleet.host_base", "res": {"changed": True}}
    report.event(ansible("runner_on_ok", "ansible.builtin.copy", **changed))
    report.event(ansible("playbook_on_stats", failures={"old": 1}, dark={}))
    one = report.machines["old"]
    assert (one.changed, one.roles, one.status) == (1, ("host_base",), "failed")


def test_control_sequences_of_a_worker_do_not_reach_the_terminal() -> None:
    report = Report()
    evil = "\x1b[2Jgone"
    report.progress({"event": "at", "host": "a", "slice": "s", "at": evil})
    applied(report, "a", "failed", problem=evil)
    assert "\x1b" not in report.machines["a"].at + report.failures[0].text


def test_equal_failures_are_put_together() -> None:
    same = [Failure(f"pair-w{at}", f"pair-w{at}: No route to host") for at in range(3)]
    # A name of one letter stands in most words.
    short = [Failure(name, f"base of {name}: cannot be applied") for name in ("a", "b", "c")]
    assert grouped(short) == [(["a", "b", "c"], "base of a,b,c: cannot be applied")]
    assert grouped([*same, same[0], Failure("x", "x: other"), Failure("", "none")]) == [
        (["pair-w0", "pair-w1", "pair-w2"], "pair-w[0-2]: No route to host"),
        (["x"], "x: other"),
        ([""], "none"),
    ]


REFUSAL = "The fleet file has 1 problem. Nothing was changed.\n  fleet_slices[0].zone = 'x'"


def test_what_is_refused_before_anything_was_changed_is_known() -> None:
    report = Report()
    assert not report.refused
    report.event(ansible("runner_on_failed", res={"msg": REFUSAL}))
    assert report.refused
    report.failures.append(Failure("pair-w0", "disk: it is full"))
    assert not report.refused


def test_a_refusal_after_a_change_is_a_failure() -> None:
    report = Report(failures=[Failure("localhost", REFUSAL)], actions=["slice pair was created"])
    assert not report.refused
    report = Report(failures=[Failure("localhost", REFUSAL)])
    applied(report, "pair-w0")
    assert not report.refused


def test_what_ansible_refuses_is_said_as_this_program_says_it() -> None:
    limit = "[ERROR]: Specified inventory, host pattern and/or --limit leaves us with no hosts "
    report = Report(output=["other", f"{limit}to target."])
    assert report.reason() == (
        "Error: --limit: no worker and no group is called so. See tpu-fleet status."
    )
