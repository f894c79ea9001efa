"""What a slice finds out together, and how it is said how it ended."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar
from unittest import mock

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.wish import SHARED
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply import run as apply_run
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.report import (
    RoleProgress,
    lines_of,
    recap,
    run_lines,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.run import (
    Call,
    Group,
    Outcome,
    disagreements,
    outcome_of,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

EVERYTHING = {name: {"of": name} for name in SHARED.values()}


def run(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 20))


class TestGroup:
    def test_the_first_waits_for_nobody(self) -> None:
        async def story() -> Any:
            return await Group(["w0", "w1"]).peers("w0")

        assert run(story()) == {}

    def test_the_others_take_what_the_first_found(self) -> None:
        async def story() -> Any:
            group = Group(["w0", "w1", "w2"])
            waiting = [asyncio.create_task(group.peers(host)) for host in ("w1", "w2")]
            for name, value in EVERYTHING.items():
                await asyncio.sleep(0)
                assert not any(task.done() for task in waiting)
                await group.found("w0", {name: value})
            return await asyncio.gather(*waiting)

        assert run(story()) == [{"w0": EVERYTHING}] * 2

    def test_when_the_first_ends_with_nothing_the_next_one_is_first(self) -> None:
        async def story() -> Any:
            group = Group(["w0", "w1", "w2"])
            second, third = (asyncio.create_task(group.peers(host)) for host in ("w1", "w2"))
            await asyncio.sleep(0)
            await group.done("w0")
            assert await second == {}
            assert group.leads("w1")
            assert not third.done()
            await group.found("w1", EVERYTHING)
            return await third

        assert run(story()) == {"w1": EVERYTHING}

    def test_the_first_may_end_well_and_have_found_nothing(self) -> None:
        async def story() -> Any:
            group = Group(["w0", "w1", "w2", "w3"])
            waiting = [asyncio.create_task(group.peers(host)) for host in ("w1", "w2", "w3")]
            await asyncio.sleep(0)
            await group.done("w0", well=True)
            # All at once, though w1 is not done.
            return await asyncio.gather(*waiting)

        assert run(story()) == [{}] * 3

    def test_another_that_ends_well_found_nothing_for_all(self) -> None:
        async def story() -> Any:
            group = Group(["w0", "w1", "w2"])
            waiting = asyncio.create_task(group.peers("w1"))
            await group.done("w2", well=True)
            await asyncio.sleep(0)
            assert not waiting.done()
            await group.found("w0", EVERYTHING)
            return await waiting

        assert run(story()) == {"w0": EVERYTHING}

    def test_the_first_of_many_has_the_collection_for_the_others(self) -> None:
        async def story() -> Any:
            group = Group(["w0", "w1", "w2", "w3"])
            waiting = [asyncio.create_task(group.source(host)) for host in ("w1", "w2")]
            await asyncio.sleep(0)
            assert await group.source("w0") == ""
            assert not any(task.done() for task in waiting)
            await group.serves("http://w0/code")
            found = await asyncio.gather(*waiting)
            # It serves no longer than it is at work.
            await group.done("w0")
            return [*found, await group.source("w3")]

        assert run(story()) == ["http://w0/code", "http://w0/code", ""]

    def test_nobody_waits_for_a_first_that_is_gone(self) -> None:
        async def story() -> Any:
            group = Group(["w0", "w1", "w2", "w3"])
            waiting = asyncio.create_task(group.source("w2"))
            await asyncio.sleep(0)
            await group.done("w0")
            return [await waiting, await Group(["w0", "w1"]).source("w1")]

        assert run(story()) == ["", ""]

    def test_a_first_that_is_stuck_is_passed_over(self) -> None:
        async def story() -> Any:
            group = Group(["w0", "w1"], patience=0.05)
            return await group.peers("w1")

        assert run(story()) == {}


@pytest.mark.parametrize(
    ("result", "status", "words"),
    [
        (Result("w0", Kind.DONE, 0, value={"status": "ok", "counts": {"ok": 3}}), "ok", ""),
        (
            Result("w0", Kind.DONE, 1, value={"status": "failed", "problem": "no room"}),
            "failed",
            "no room",
        ),
        (
            Result("w0", Kind.REFUSED, says="refuses", remedy="Look."),
            "unreachable",
            "refuses Look.",
        ),
        (Result("w0", Kind.HOST_KEY, says="another key"), "unreachable", "another key"),
        (Result("w0", Kind.CUT, says="lost"), "failed", "the host continues"),
        (Result("w0", Kind.DONE, 1, stderr=b"sudo: a password is required"), "failed", "password"),
        (Result("w0", Kind.DONE, 127), "failed", "ended with 127"),
        # However well the command ended: without a result it is not ok.
        (Result("w0", Kind.DONE, 0), "failed", "ended with 0"),
    ],
)
def test_every_end_has_a_status(result: Result, status: str, words: str) -> None:
    outcome = outcome_of(result)
    assert outcome.status == status
    assert words in outcome.problem


def test_workers_that_found_something_else_than_their_first_fail() -> None:
    def outcome(host: str, found: str, status: str = "ok") -> Outcome:
        return Outcome(host, status, findings={"python_env": found})

    slices = {"a0": "a", "a1": "a", "a2": "a", "b0": "b"}
    told = disagreements(
        [outcome("a0", "x"), outcome("a1", "y"), outcome("a2", "z", "failed"), outcome("b0", "y")],
        slices,
    )
    assert [one.status for one in told] == ["ok", "failed", "failed", "ok"]
    assert "a1 differs from what is on a0" in told[1].problem
    # The remedy is that of the role: code is not built.
    assert ("fleet_rebuild_venvs" in told[1].problem) is ("python_env" in told[1].problem)
    assert told[2].problem == ""


class TestRuns:
    CHANGES: ClassVar[dict[str, list[dict[str, Any]]]] = {
        "a0": [{"run": "lr3", "does": "restarted", "why": ["code"], "note": ""}],
        "m0": [
            {"run": "base", "does": "restarted", "why": ["code"], "note": ""},
            {"run": "wide", "does": "restarted", "why": ["command"], "note": "It continues"},
        ],
        # The first worker of a slice that names a run stands for the slice.
        "m1": [{"run": "base", "does": "started", "why": ["code", "it had failed"], "note": ""}],
    }
    SLICES: ClassVar[dict[str, str]] = {"a0": "a", "m0": "main", "m1": "main"}

    def test_each_run_that_restarts_is_named_with_its_reason(self) -> None:
        assert list(run_lines(self.CHANGES, self.SLICES, check=False)) == [
            "restarted: base (main), lr3 (a): code",
            "restarted: wide (main): command",
            "note: wide (main): It continues.",
        ]

    def test_check_mode_says_that_it_would_be(self) -> None:
        first = next(iter(run_lines(self.CHANGES, self.SLICES, check=True)))
        assert first == "would be restarted: base (main), lr3 (a): code"

    def test_without_runs_there_is_no_line(self) -> None:
        assert list(run_lines({}, self.SLICES, check=True)) == []


class TestReport:
    def test_what_needs_no_look_is_one_line(self) -> None:
        many = [Outcome(f"w{number}", "ok") for number in range(200)]
        changed = Outcome("x", "ok", {"ok": 9, "changed": 1}, reasons=["a: other", "b", "c", "d"])
        lines = list(recap([*many, changed, Outcome("y", "unreachable", problem="away")]))
        assert [text for text, _colour in lines] == [
            "as declared, nothing to do: w0, w1, w2, w3, w4, w5 and 194 more",
            # Only the first machine of a play is in Ansible's recap, with other numbers.
            "on the machines (Ansible's own recap counts the tasks of this computer):",
            "x    : ok=9    changed=1    failed=0    skipped=0    rescued=0    ignored=0"
            "  (a: other; b; c; and 1 more)",
            "y    : unreachable",
        ]
        assert [colour for _text, colour in lines] == ["green", "", "yellow", "red"]

    @pytest.mark.parametrize(
        ("said", "lines"),
        [
            ({"say": "event", "event": "task", "task": "T", "status": "skipped"}, []),
            (
                {"say": "event", "event": "task", "task": "T", "status": "changed", "diff": "+a\n"},
                [("changed: [w0] T", "yellow", 0), ("+a", "", 0)],
            ),
            (
                {
                    "say": "event",
                    "event": "task",
                    "task": "T",
                    "status": "failed",
                    "msg": "No\nway",
                },
                [("fatal: [w0] T\n    No\n    way", "red", 0)],
            ),
            (
                {"say": "event", "event": "task", "task": "T", "status": "ok"},
                [("ok: [w0] T", "green", 1)],
            ),
            (
                {"say": "waiting", "holder": {"who": "ann@desk"}},
                [("waiting: [w0] for ann@desk", "cyan", 0)],
            ),
            ({"say": "alive"}, []),
            (
                {"say": "event", "event": "engine", "seconds": 40},
                [("installed: [w0] ansible-core, in 40 s", "cyan", 0)],
            ),
        ],
    )
    def test_what_hosts_say(self, said: dict[str, Any], lines: list[Any]) -> None:
        assert list(lines_of("w0", said)) == lines


def test_each_role_is_told_when_the_next_one_begins() -> None:
    now = [0.0]
    progress = RoleProgress(lambda: now[0])

    def heard(at: float, **said: Any) -> str:
        now[0] = at
        return progress.heard("w0", said)

    def task(seconds: float, name: str, status: str) -> str:
        return heard(seconds, say="event", event="task", task=f"tpu.fleet.{name}", status=status)

    assert heard(0, say="begin", roles=["host_base"], reasons=[]) == ""
    assert heard(40, say="event", event="engine", seconds=40) == ""
    # What is only begun before the first role is no role that ended.
    assert task(41, "python_env : Start to build the environments", "changed") == ""
    assert task(45, "host_base : Install", "changed") == ""
    assert task(50, "host_base : Write", "ok") == ""
    assert heard(51, say="alive") == ""
    assert (
        task(52, "user_accounts : Create", "changed")
        == "applied: [w0] host_base, 1 changed, in 12 s"
    )
    assert task(53, "user_accounts : Record", "changed") == ""
    # It waits between two roles: neither of them takes that long.
    assert heard(54, say="event", event="peers") == (
        "applied: [w0] user_accounts, 2 changed, in 2 s"
    )
    # One task checks what is declared for all roles: it is of none.
    heard(54, say="event", event="task", task="Check what is declared", status="ok")
    assert progress.at("w0") == "waits for the first worker of its slice"
    now[0] = 70
    assert progress.still(["w0"], 70) == (
        "after 70 s: 0 of 1 machines done; "
        "[w0] waits for the first worker of its slice (16 s so far)"
    )
    assert heard(70, say="event", event="doing", what="compiles the packages") == ""
    assert progress.still(["w0"], 70).endswith(
        "[w0] waits for the first worker of its slice, compiles the packages (16 s so far)"
    )
    assert task(72, "code_checkout : Look", "ok") == ""
    now[0] = 75
    assert progress.ended("w0") == "applied: [w0] code_checkout, 0 changed, in 3 s"
    assert progress.ended("w0") == ""
    assert progress.ended("w1") == ""


def test_who_waits_is_told_what_a_task_does() -> None:
    now = [0.0]
    progress = RoleProgress(lambda: now[0])

    def event(**said: Any) -> str:
        return progress.heard("w0", {"say": "event", **said})

    progress.heard("w0", {"say": "begin", "roles": ["host_base"], "reasons": []})
    event(event="task", task="tpu.fleet.host_base : Check", status="ok")
    event(event="doing", what="waits: /var/lib/dpkg/lock is locked (apt of root, pid 7)")
    now[0] = 9
    told = progress.still(["w0"], 9)
    assert "[w0] host_base, waits: /var/lib/dpkg/lock is locked (apt of root, pid 7) (9 s" in told
    event(event="task", task="tpu.fleet.host_base : Wait", status="ok")
    assert "waits:" not in progress.still(["w0"], 9)


def test_a_role_that_failed_is_not_applied() -> None:
    progress = RoleProgress(lambda: 0.0)
    for task, status in (("Look", "failed"), ("Look again", "changed"), ("Build", "failed")):
        said = {"event": "task", "task": f"tpu.fleet.python_env : {task}", "status": status}
        progress.heard("w0", {"say": "event", **said})
    assert progress.ended("w0") == "failed: [w0] python_env, 1 changed, in 0 s"
    # One that was rescued is.
    progress.heard("w1", {"say": "event", **said})
    progress.heard("w1", {"say": "event", **said, "status": "ok"})
    assert progress.ended("w1").startswith("applied: [w1]")


def test_a_login_that_stays_denied_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_run, "DENIED_FOR", 0.05)
    monkeypatch.setattr(apply_run, "PAUSE", 0.02)
    tried: list[str] = []

    async def once(self: Call, targets: list[Any]) -> Any:
        for target in targets:
            tried.append(target.name)
            kind = Kind.AUTH if target.name == "denied" else Kind.REFUSED
            yield Result(target.name, kind, says="no")

    monkeypatch.setattr(Call, "_once", once)
    targets = [mock.Mock(), mock.Mock()]
    for target, name in zip(targets, ("denied", "starting"), strict=True):
        target.name = name
    call = Call([], b"", "me", lambda _host, _said: None, mock.Mock())
    outcomes = run(call.run(targets, timeout=0.5))
    assert [outcome.status for outcome in outcomes] == ["unreachable", "unreachable"]
    # A machine that was just made has its accounts after some seconds.
    assert 2 <= tried.count("denied") < tried.count("starting")


def test_a_host_that_is_lost_at_work_is_found_at_another_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, seconds in (("PAUSE", 0.01), ("LOOK_AFTER", 0.05), ("LOOK_AGAIN", 0.05)):
        monkeypatch.setattr(apply_run, name, seconds)
    fine = {"status": "ok", "counts": {"ok": 1}}
    tried: list[tuple[str, str]] = []
    resumed = asyncio.Event()

    async def once(self: Call, targets: list[Target]) -> Any:
        for target in targets:
            tried.append((target.name, target.address))
            if target.name == "busy":
                # It works for long; the lost one is not called after it, but beside it.
                await resumed.wait()
            elif len(tried) == 1:
                yield Result("lost", Kind.CUT, says="lost")
                continue
            elif target.address == "old":
                yield Result("lost", Kind.UNREACHABLE, says="No route to host")
                continue
            else:
                resumed.set()
            yield Result(target.name, Kind.DONE, 0, value=fine)

    looked: list[list[str]] = []

    def find(away: list[str]) -> dict[str, Target]:
        looked.append(list(away))
        return {name: Target(name, "new") for name in away}

    monkeypatch.setattr(Call, "_once", once)
    said: list[tuple[str, Any]] = []
    call = Call([], b"", "me", lambda *word: said.append(word), mock.Mock(), find=find)
    # Also where nobody waits for machines that cannot be reached at first.
    outcomes = run(call.run([Target("lost", "old"), Target("busy", "b")], timeout=0))
    assert [outcome.status for outcome in outcomes] == ["ok", "ok"]
    assert tried[-1] == ("lost", "new")
    assert looked == [["lost"]]
    assert said == [("lost", {"say": "moved", "address": "new"})]


def test_what_one_that_followed_did_not_need_is_found_by_one_worker_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first fails, and the second needs nothing: the others would each resolve a branch."""
    let: dict[str, asyncio.Event] = {}
    led: list[str] = []

    async def talk(*words: Any) -> dict[str, Any]:
        peers, host = words[5], words[7]
        if not words[1]["lead"]:
            await peers()
            led.append(host)
        await let[host].wait()
        return {"status": "failed" if host == "w0" else "ok", "shared": {}}

    async def story() -> list[list[str]]:
        names = ["w0", "w1", "w2", "w3"]
        orders = [mock.Mock(host=name, slice="pair", address="") for name in names]
        let.update((name, asyncio.Event()) for name in names)
        call = Call(orders, b"", "me", lambda _host, _said: None, mock.Mock())
        tasks = [
            asyncio.create_task(call._talk(mock.Mock(target=Target(name, name)))) for name in names
        ]
        seen = []
        for name in names:
            for _turn in range(10):
                await asyncio.sleep(0)
            seen.append([*led])
            let[name].set()
        await asyncio.gather(*tasks)
        return seen

    monkeypatch.setattr(apply_run, "talk", talk)
    assert run(story()) == [[], ["w1"], ["w1", "w2"], ["w1", "w2", "w3"]]


def test_a_host_that_is_away_from_the_beginning_is_not_waited_for_without_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def once(self: Call, targets: list[Target]) -> Any:
        for target in targets:
            yield Result(target.name, Kind.UNREACHABLE, says="No route to host")

    monkeypatch.setattr(Call, "_once", once)
    call = Call([], b"", "me", lambda _host, _said: None, mock.Mock())
    assert run(call.run([Target("away", "a")], timeout=0))[0].status == "unreachable"


def test_who_waits_is_told_what_is_waited_for() -> None:
    now = [0.0]
    progress = RoleProgress(lambda: now[0])
    hosts = ["w0", "w1", "w2", "w3"]
    assert progress.still(hosts, 5) == (
        "after 5 s: 0 of 4 machines done; no word yet from w0, w1, w2, w3"
    )
    progress.heard("w0", {"say": "begin", "roles": ["host_base"], "reasons": []})
    progress.ended("w2")
    now[0] = 10
    task = {"say": "event", "event": "task", "task": "tpu.fleet.host_base : Wait", "status": "ok"}
    progress.heard("w1", {"say": "begin", "roles": ["host_base"], "reasons": []})
    progress.heard("w1", task)
    now[0] = 30
    assert progress.still(hosts, 30) == (
        "after 30 s: 1 of 4 machines done; [w0] gets ansible-core (30 s so far), "
        "and 1 more at work; no word yet from w3"
    )
    progress.ended("w0")
    assert "2 of 4 machines done; [w1] host_base (20 s so far); no" in progress.still(hosts, 30)
    # It was called again.
    progress.heard("w0", {"say": "begin", "roles": ["host_base"], "reasons": []})
    assert "1 of 4 machines done" in progress.still(hosts, 30)
