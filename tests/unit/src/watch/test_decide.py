"""What is done for slices: from what was seen and what is known to playbooks and messages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slices_seen import slice_seen

from tpu_fleet.watch.decide import Job, Outcome, SliceSeen, done, is_of, jobs, notice
from tpu_fleet.watch.memory import Memory, SliceMemory, load

NOW = 1_000_000.0
TWO = ("10.0.0.1 -", "10.0.0.2 -")


def ready(uid: str = "u1", **more: Any) -> SliceSeen:
    return slice_seen("pair", "ready", "v4-16 in z", uid=uid, addresses=TWO, **more)


def lost(policy: str = "recreate", uid: str = "u1") -> SliceSeen:
    phase = "clearing" if policy == "recreate" else "kept"
    wants = "- delete node pair" if policy == "recreate" else ""
    gone = {"lost": "PREEMPTED", "lost_uid": uid, "on_preempt": policy}
    return slice_seen("pair", phase, "t", wants=wants, **gone)


def phase(name: str, uid: str = "", wants: str = "") -> SliceSeen:
    return slice_seen("pair", name, "t", uid=uid, wants=wants)


def life(*looks: SliceSeen, memory: Memory | None = None) -> tuple[Memory, list[str]]:
    """Let one look follow the other, a minute apart, each by a watcher that was just started."""
    told = []
    memory = memory or Memory()
    for number, look in enumerate(looks):
        memory, messages = notice(memory, [look], NOW + 60 * number)
        told += [f"{message.event}: {message.title}" for message in messages]
        memory = Memory.from_dict(json.loads(json.dumps(memory.to_dict())))
    return memory, told


NEW = ("it is a new node",)
PREEMPTED = "preempted: pair was preempted"


@pytest.mark.parametrize(
    ("looks", "due", "told"),
    [
        # What a person set up before there was a watcher is left alone.
        ([ready()], (), []),
        ([ready(), ready()], (), []),
        # A slice that was got since then is new.
        ([phase("coming"), ready()], NEW, []),
        ([phase("waiting"), phase("coming", "u1"), ready()], NEW, []),
        # Preempted, cleared away, made again.
        ([ready(), lost(), lost(), phase("clearing"), phase("coming", "u2"), ready("u2")], NEW,
         [PREEMPTED]),
        # Nobody saw it preempted: it is only another node now.
        ([ready(), ready("u2")], NEW, []),
        # Gone, and nobody saw why.
        ([ready(), phase("coming"), ready("u2")], NEW, ["preempted: pair is gone"]),
        # Lost before there was a watcher.
        ([lost()], (), [PREEMPTED]),
        # It is to be kept so: it is told, and nothing is done.
        ([ready(), lost("keep"), lost("keep")], (), [PREEMPTED]),
        # Lost twice is told twice.
        ([ready(), lost(), ready("u2"), lost(uid="u2")], (), [PREEMPTED, PREEMPTED]),
        # A maintenance: the same node is away for a while.
        ([ready(), phase("coming", "u1"), ready()], ("it was coming",), []),
        # A zone that does not answer tells nothing.
        ([ready(), phase("unknown"), ready()], (), []),
        ([ready(), phase("unknown"), ready("u2")], NEW, []),
    ],
)  # fmt: skip
def test_what_follows_of_what_is_seen(
    looks: list[SliceSeen], due: tuple[str, ...], told: list[str]
) -> None:
    memory, said = life(*looks)
    assert memory.slice("pair").due == due
    assert said == told


def test_a_kept_slice_says_so() -> None:
    _memory, [message] = notice(Memory(known=True), [lost("keep")], NOW)
    assert message.text == "It is PREEMPTED: t. It is not recreated, because on_preempt is keep."
    _memory, [message] = notice(Memory(known=True), [lost()], NOW)
    assert message.text.endswith("It is requested again until there is capacity.")


def test_what_is_not_declared_any_more_is_forgotten() -> None:
    memory, _messages = notice(Memory(slices={"old": SliceMemory(uid="u")}), [ready()], NOW)
    assert set(memory.slices) == {"pair"}


def known(**fields: Any) -> Memory:
    return Memory(slices={"pair": SliceMemory(**{"uid": "u1", "phase": "ready", **fields})})


def planned(
    memory: Memory, *seen: SliceSeen, **more: Any
) -> list[tuple[tuple[str, ...], bool, bool]]:
    given: dict[str, Any] = {"busy": (), "gate_free": True, "slots": 4, "now": NOW, **more}
    return [(job.slices, job.asks, job.api) for job in jobs(memory, list(seen), **given)]


SET_UP, ASKS = (("pair",), False, True), (("pair",), True, True)


@pytest.mark.parametrize(
    ("memory", "seen", "more", "expected"),
    [
        (known(), ready(), {}, []),
        (known(due=NEW), ready(), {}, [SET_UP]),
        # Another playbook is in its part on the controller: ours goes without one.
        (known(due=NEW), ready(), {"gate_free": False}, [(("pair",), False, False)]),
        (known(due=NEW), ready(), {"busy": ("pair",)}, []),
        (known(due=NEW), ready(), {"slots": 0}, []),
        (known(due=NEW, next_at=NOW + 1), ready(), {}, []),
        (known(due=NEW, next_at=NOW), ready(), {}, [SET_UP]),
        (known(due=NEW), phase("coming", "u1"), {}, []),
        # The planner says what is to be asked for, and nobody else.
        (known(), lost(), {}, [ASKS]),
        (known(), lost("keep"), {}, []),
        (known(), phase("waiting"), {}, []),
        (known(), phase("queued"), {}, []),
        (known(), phase("coming", wants="+ create node pair"), {}, [ASKS]),
        (known(), lost(), {"gate_free": False}, []),
        (known(), lost(), {"busy": ("pair",)}, []),
        (replace(known(), next_at=NOW + 1), lost(), {}, []),
        # What is pruned belongs to no declared slice.
        (known(), ready(), {"others": ["- delete node old"]}, [((), True, True)]),
    ],
)
def test_which_playbooks_are_run(
    memory: Memory, seen: SliceSeen, more: dict[str, Any], expected: list[Any]
) -> None:
    assert planned(memory, seen, **more) == expected


def test_what_is_there_is_set_up_before_others_are_waited_for() -> None:
    solo = slice_seen("solo", "clearing", "t", wants="- delete node solo")
    memory = known(due=NEW)
    assert planned(memory, ready(), solo) == [SET_UP]
    # While that one runs, and after its part on the controller, the others are asked for.
    later = planned(memory, ready(), solo, busy=("pair",))
    assert later == [(("solo",), True, True)]


def outcome(job: Job | None = None, **fields: Any) -> Outcome:
    return Outcome(**{"job": job or Job(("pair",), ()), "code": 0, **fields})


WELL = {"pair-w0": True, "pair-w1": True}


@pytest.mark.parametrize(
    ("hosts", "left", "failures"),
    [
        (WELL, (), 0),
        ({**WELL, "other-w0": False}, (), 0),
        ({**WELL, "pair-w1": False}, NEW, 1),
        # One of two workers is not known yet.
        ({"pair-w0": True}, NEW, 1),
        ({}, NEW, 1),
    ],
)
def test_all_workers_have_to_be_well(
    hosts: dict[str, bool], left: tuple[str, ...], failures: int
) -> None:
    memory, troubles = done(known(due=NEW), [ready()], outcome(hosts=hosts), NOW)
    found = memory.slice("pair")
    assert (found.due, found.failures) == (left, failures)
    assert ("setup:pair" in troubles, found.next_at > NOW) == (bool(left), bool(left))
    assert bool(found.healed) is not bool(left)


def test_healing_says_how_long_it_took_and_why() -> None:
    memory = known(due=NEW, lost_as="PREEMPTED u0", lost_at=NOW - 240)
    memory, _troubles = done(memory, [ready()], outcome(hosts=WELL), NOW)
    text = "It was lost for 4 min. Set up because it is a new node."
    assert memory.slice("pair").healed == f"pair is back\n{text}"
    assert (memory.slice("pair").lost_as, memory.slice("pair").lost_at) == ("", 0.0)


def test_a_first_time_is_no_return() -> None:
    memory, _troubles = done(known(due=NEW), [ready()], outcome(hosts=WELL), NOW)
    assert memory.slice("pair").healed == "pair is set up\nSet up because it is a new node."


def test_failures_are_tried_again_ever_later() -> None:
    memory, pauses = known(due=NEW), []
    for _number in range(10):
        bad = outcome(hosts={**WELL, "pair-w1": False}, code=2)
        memory, _troubles = done(memory, [ready()], bad, NOW)
        pauses.append(memory.slice("pair").next_at - NOW)
    assert 30 <= pauses[0] <= 60
    assert 60 <= pauses[1] <= 120
    assert 1800 <= pauses[-1] <= 3600


@pytest.mark.parametrize(
    ("kind", "code", "trouble"),
    [("", 0, False), ("timeout", 2, False), ("refused", 2, True), ("failed", 1, True)],
)
def test_that_there_is_no_capacity_is_no_trouble(kind: str, code: int, trouble: bool) -> None:
    asked = Job(("pair",), (), asks=True)
    said = outcome(asked, kind=kind, code=code, failures=(("localhost", "why"),))
    memory, troubles = done(known(), [phase("waiting")], said, NOW)
    assert troubles == ({"provision": "why"} if trouble else {})
    assert memory.failures == int(trouble)
    assert memory.next_at > NOW


def test_what_we_ended_ourselves_has_not_failed() -> None:
    before = known(due=NEW)
    ended = outcome(code=99, kind="interrupted", hosts={"pair-w0": False})
    assert done(before, [ready()], ended, NOW) == (before, {})


@pytest.mark.parametrize(
    ("host", "slice_name", "is_one"),
    [
        ("pair-w0", "pair", True),
        ("pair-w12", "pair", True),
        ("solo", "solo", True),
        ("solo.us-central2-b", "solo", True),
        ("pair-w0.us-central2-b", "pair", True),
        ("pair-west", "pair", False),
        ("pair2-w0", "pair", False),
        ("pairs", "pair", False),
    ],
)
def test_whose_worker_a_host_is(host: str, slice_name: str, is_one: bool) -> None:
    assert is_of(host, slice_name) is is_one


def test_a_broken_memory_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    assert load(path) == Memory()
    for text in ("", "[]", '{"slices": {"pair": 5}}', '{"outbox": {"boxes": {"a": {}}}}'):
        path.write_text(text)
        assert load(path) == Memory()
        assert not path.exists()
    memory = known(due=NEW, boots={"pair-w0": "b"})
    path.write_text(json.dumps(memory.to_dict()))
    assert load(path) == memory


def other(name: str = "third", phase: str = "ready") -> SliceSeen:
    return slice_seen(name, phase, "t", uid="u", addresses=("a -",))


@pytest.mark.parametrize(
    ("due", "phase", "busy", "slices"),
    [
        # Who trains with it has to know its new addresses.
        (("pair",), "ready", (), [("pair", "third")]),
        (("pair", "third"), "ready", (), [("pair", "third")]),
        # It is told when it is there itself.
        (("pair",), "coming", (), [("pair",)]),
        # What is worked on just now may have been told the old ones.
        (("pair",), "ready", ("third",), []),
        (("fourth",), "ready", ("third",), [("fourth",)]),
    ],
)
def test_slices_that_train_together_are_set_up_together(
    due: tuple[str, ...], phase: str, busy: tuple[str, ...], slices: list[tuple[str, ...]]
) -> None:
    memory = Memory(slices={name: SliceMemory(uid="u", phase="ready", due=NEW) for name in due})
    seen = [ready(), other(phase=phase), other("fourth")]
    together = {"pair": {"third"}, "third": {"pair"}}
    found = jobs(memory, seen, busy=busy, together=together, gate_free=True, slots=4, now=NOW)
    assert [job.slices for job in found] == slices


def test_who_could_not_be_told_is_told_again() -> None:
    memory = Memory(slices={"pair": SliceMemory(uid="u1", phase="ready", due=NEW)})
    job = Job(("pair", "third"), ("w",))
    hosts = {"pair-w0": True, "pair-w1": True, "third": False}
    after, troubles = done(memory, [ready(), other()], Outcome(job, 2, hosts), NOW)
    assert after.slice("pair").due == ()
    assert after.slice("third").due == ("a slice that it trains with has changed",)
    assert list(troubles) == ["setup:third"]
    outcome = Outcome(job, 0, {**hosts, "third": True})
    well, troubles = done(memory, [ready(), other()], outcome, NOW)
    assert (well.slice("third").due, troubles) == ((), {})


def test_who_trains_with_a_slice_that_was_made_anew_is_told_when_it_is_there() -> None:
    memory = Memory(slices={"pair": SliceMemory(uid="u1", phase="ready", due=NEW)})
    together = {"pair": {"third"}, "third": {"pair"}}
    asked = Outcome(Job(("pair",), ("w",), asks=True), 0, WELL)
    after, _troubles = done(memory, [ready(), other()], asked, NOW, together)
    assert after.slice("third").due == ("a slice that it trains with has changed",)
    # Not while there is nothing to tell.
    failed = replace(asked, hosts={"pair-w0": True, "pair-w1": False})
    before, _troubles = done(memory, [ready(), other()], failed, NOW, together)
    assert before.slice("third").due == ()
