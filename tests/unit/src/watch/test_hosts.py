"""What follows of what the workers say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import Words
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    RunStatus,
    run_status,
)
from slices_seen import slice_seen

from tpu_fleet.notify.outbox import Outbox
from tpu_fleet.watch.decide import notice
from tpu_fleet.watch.hosts import Heard, HostSeen, hear, host_of, runs_of
from tpu_fleet.watch.memory import Memory, SliceMemory
from tpu_fleet.watch.tell import became_of

NOW = 1_000_000.0
SEEN = [slice_seen("pair", "ready", "t", uid="u1", addresses=("a -", "b -"))]
AWAY = HostSeen(reached=False, says="no route")


def told(state: str = "running", worker: int = 0, **more: Any) -> dict[str, Any]:
    known = {"run": "digits", "state": state, "attempt": 2, "run_id": "r", "boot_id": "b1"}
    return {**known, "worker": worker, **more}


def run(state: str = "running", worker: int = 0, **more: Any) -> RunStatus:
    return run_status(Words("w", told(state, worker, **more)))


def host(*runs: RunStatus, boot: str = "b1", set_up: bool = True) -> HostSeen:
    return HostSeen(True, boot_id=boot, set_up=set_up, runs=runs)


def memory(known: bool = True, **fields: Any) -> Memory:
    one = SliceMemory(**{"uid": "u1", "phase": "ready", **fields})
    return Memory(slices={"pair": one}, hosts_known=("u1",) if known else ())


def heard(known: Memory, *hosts: HostSeen, declared: tuple[str, ...] = ()) -> Heard:
    looks = {"pair": {f"pair-w{index}": one for index, one in enumerate(hosts)}}
    return hear(known, SEEN, looks, {"pair": declared}, NOW)


@pytest.mark.parametrize(
    ("before", "said", "due"),
    [
        ({}, [host(), host()], ()),
        ({"boots": {"pair-w0": "b1"}}, [host(), host()], ()),
        ({"boots": {"pair-w0": "b0"}}, [host(), host()], ("pair-w0 was rebooted",)),
        ({"boots": {"pair-w1": "b1"}, "away": {"pair-w1": NOW - 60}}, [host(), host()],
         ("pair-w1 answers again",)),
        # It was away for its reboot: one reason is enough.
        ({"boots": {"pair-w1": "b0"}, "away": {"pair-w1": NOW - 60}}, [host(), host()],
         ("pair-w1 was rebooted",)),
        # Who never answered before has not come back.
        ({"away": {"pair-w1": NOW - 60}}, [host(), host()], ()),
        ({"boots": {"pair-w1": "b1"}}, [host(), AWAY], ()),
        ({}, [host(), host(set_up=False)], ("pair-w1 was never set up",)),
    ],
)  # fmt: skip
def test_when_a_slice_is_set_up_again(
    before: dict[str, Any], said: list[HostSeen], due: tuple[str, ...]
) -> None:
    assert heard(memory(**before), *said).memory.slice("pair").due == due


def test_who_does_not_answer_is_known_with_the_time() -> None:
    first = heard(memory(), host(), AWAY)
    assert first.away == {"pair-w1": "no route"}
    later = hear(first.memory, SEEN, {"pair": {"pair-w1": AWAY}}, {}, NOW + 300)
    assert later.memory.slice("pair").away == {"pair-w1": NOW}


def test_a_run_that_is_missing_is_brought_once() -> None:
    first = heard(memory(), host(run()), host(), declared=("digits",))
    assert first.memory.slice("pair").due == ("run digits is missing",)
    settled = first.memory.with_slice("pair", replace(first.memory.slice("pair"), due=()))
    assert heard(settled, host(run()), host(), declared=("digits",)).memory.slice("pair").due == ()
    assert heard(memory(), host(run()), host(run()), declared=("digits",)).messages == []


def test_one_message_for_a_run_that_failed_on_all_workers() -> None:
    event = {"event": "run-failed", "reason": "4 failures in 1 h", "tail": ["Traceback", "x"]}
    failed = [
        host(run("failed", 0, exit_code=0)),
        host(run("failed", 1, exit_code=1, event=event, tail=["other"], step=70)),
    ]
    found = heard(memory(), *failed)
    [message] = found.messages
    assert message.title == "digits failed on pair"
    assert message.text == "Attempt 2, exit code 1, step 70. x. 4 failures in 1 h."
    assert message.log == ("Traceback", "x")
    assert message.key == "run:pair:digits:r:2:failed"
    assert [one["host"] for one in found.runs] == ["pair-w1"]


def test_the_end_of_the_log_where_there_is_no_event() -> None:
    [message] = heard(memory(), host(run("failed", tail=["a", "b"], signal=9))).messages
    assert (message.log, message.text) == (("a", "b"), "Attempt 2, signal 9.")
    [message] = heard(memory(), host(run("succeeded", step=3000))).messages
    assert (message.event, message.text) == ("finished", "Attempt 2, step 3000.")


NAN = {"what": "nan", "step": 121, "at": NOW - 60, "saved_step": 100, "saved_at": NOW - 70}


def test_a_loss_that_is_no_number_is_told_once() -> None:
    troubled = host(run(loss="nan", loss_trouble=NAN, step=140), set_up=True)
    found = heard(memory(), troubled, host(run(worker=1, loss=2.0)))
    [message] = found.messages
    assert message.event == "loss"
    assert message.title == "digits on pair: loss is NaN since step 121"
    assert message.text == (
        "Loss is NaN since step 121; last checkpoint before it: step 100. "
        "Run digits: loss NaN, attempt 2, step 140."
    )
    told = replace(found.memory, outbox=replace(Outbox(), told={message.key: NOW}))
    again = host(run(loss="nan", loss_trouble={**NAN, "step": 140}, step=150))
    for same in (troubled, again):
        assert hear(told, SEEN, {"pair": {"pair-w0": same}}, {}, NOW + 300).messages == []
    # The first poll of a fleet sees what is no news.
    assert heard(memory(known=False), troubled).known_already == [message.key]


def test_what_happened_before_there_was_a_watcher_is_not_news() -> None:
    found = heard(memory(known=False), host(run("succeeded")))
    assert (found.messages, found.known_already) == ([], ["run:pair:digits:r:2:succeeded"])
    assert found.memory.hosts_known == ("u1",)
    # On a node that the watcher has just set up it is.
    found = heard(memory(known=False, healed="pair is back\nSet up."), host(run("failed")))
    assert [message.event for message in found.messages] == ["healed", "failed"]


def test_healing_is_told_with_the_runs() -> None:
    found = heard(
        memory(healed="pair is back\nSet up."), host(run(step=5)), host(run("restarting", 1))
    )
    [message] = found.messages
    assert message.text == "Set up.\nRun digits: restarting 1/2, attempt 2, step 5."
    assert found.memory.slice("pair").healed == ""
    [message] = heard(memory(healed="pair is back\nSet up."), AWAY, AWAY).messages
    assert message.text == "Set up."


def test_the_newest_attempt_counts() -> None:
    hosts = {"a": host(run("failed", 0)), "b": host(run("running", 1, attempt=3))}
    assert [(one.host, one.attempt) for one in runs_of("pair", hosts)] == [("b", 3)]


@pytest.mark.parametrize("output", [b"", b"[]", b"{}", b"sudo: a password is required", b"\xff"])
def test_answers_that_nobody_understands(output: bytes) -> None:
    assert not host_of("w", output).reached


def test_an_answer() -> None:
    said = {"boot_id": "b", "set_up": True, "now": 1, "runs": [told()]}
    said |= {"applied": "x", "used": ["alice is logged in"]}
    expected = HostSeen(True, "", 1, "b", True, "x", ("alice is logged in",), (run(),))
    assert host_of("w", json.dumps(said).encode()) == expected
    said["runs"] = [told(), "nonsense"]
    refused = host_of("w", json.dumps(said).encode())
    assert not refused.reached
    assert refused.says == "its answer is not accepted: runs[1] is 'nonsense', not an object"


@pytest.mark.parametrize(
    "fault",
    [
        {"event": {"event": "run-failed", "tail": 5}},
        {"event": {"event": "run-failed", "tail": ["\ud800"]}},
        {"event": 5, "tail": {"a": 1}},
        {"attempt": "x"},
        {"attempt": [1]},
        {"exit_code": {}},
        {"worker": "0"},
        {"step": []},
        {"run": ["x"]},
        {"queue": 1},
    ],
)
def test_what_one_slice_says_costs_the_others_nothing(fault: dict[str, Any]) -> None:
    two = ("a -", "b -")
    seen = [slice_seen(name, "ready", uid=name, addresses=two) for name in ("evil", "pair")]
    answer = {"boot_id": "b", "set_up": True, "applied": "x", "used": [], "now": 1}
    bad = json.dumps({**answer, "runs": [{**told("failed"), **fault}]}).encode()
    good = json.dumps({**answer, "runs": [told("failed")]}).encode()
    looks = {"evil": {"evil-w0": host_of("evil-w0", bad)}, "pair": {"w": host_of("w", good)}}
    found = hear(Memory(hosts_known=("evil", "pair")), seen, looks, {}, NOW)
    assert "digits failed on pair" in [message.title for message in found.messages]
    for message in found.messages:
        json.dumps(message.to_dict(), ensure_ascii=False).encode()


def test_a_mistake_of_ours_about_one_slice_costs_the_others_nothing() -> None:
    two = ("a -", "b -")
    seen = [slice_seen(name, "ready", uid=name, addresses=two) for name in ("evil", "pair")]
    broken: Any = replace(host(), runs=(7,))
    looks = {"evil": {"evil-w0": broken}, "pair": {"w": host(run("failed"))}}
    found = hear(Memory(hosts_known=("evil", "pair")), seen, looks, {}, NOW)
    assert [message.slice for message in found.messages] == ["pair"]
    assert found.away == {"evil-w0": "its answer cannot be used: AttributeError"}


def test_a_worker_that_makes_up_runs_is_told_in_few_messages() -> None:
    made_up = [run("failed", run=f"r{n}", run_id=f"i{n}") for n in range(1000)]
    first = heard(memory(), host(*made_up), AWAY)
    assert len(first.messages) == 21
    assert first.messages[-1].title == "and 980 more on pair"
    # What was told is not counted again, nor told.
    keys = [one.key for one in first.messages if one.key] + first.known_already
    told = replace(memory(), outbox=Outbox(told=dict.fromkeys(keys, NOW)))
    more = [*made_up, run("failed", run="late", run_id="l")]
    assert [one.title for one in heard(told, host(*more), AWAY).messages] == ["late failed on pair"]


def test_a_preemption_says_what_became_of_the_checkpoints() -> None:
    places = {"lr3": "own disk", "base": "bucket", "new": ""}
    runs = [run(run=name, checkpoints_on=place) for name, place in places.items()]
    known = heard(memory(), host(*runs)).memory
    # Of a slice that does not answer any more, what it said before counts.
    known = heard(known, AWAY).memory
    assert known.slice("pair").checkpoints == {"lr3": "own disk", "base": "bucket"}
    assert Memory.from_dict(json.loads(json.dumps(known.to_dict()))).slice("pair").checkpoints
    lost = slice_seen("pair", "clearing", "t", lost="PREEMPTED", lost_uid="u1")
    known, [message] = notice(known, [lost], NOW)
    assert message.text.splitlines()[1:] == [
        "base: its checkpoints are kept (bucket).",
        "lr3: its checkpoints were deleted with its own disk.",
    ]
    # What another node loses is not known yet.
    assert known.slice("pair").checkpoints == {}


def test_a_preemption_names_few_of_many_runs() -> None:
    lines = became_of({f"r{number}": "bucket" for number in range(30)})
    assert (len(lines), lines[-1]) == (21, "And 10 more runs.")
