"""What people, leaders and watchers do with the queue, on a bucket in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import claims, objects, tending
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node, Outcome
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import Limits, turn_of
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Exists, Queue, Seen
from memory_bucket import MemoryBucket

PAIR = Serving("pair", "v4-8", 4, frozenset({"jax"}))
SOLO = Serving("solo", "v4-8", 4, frozenset({"jax"}))


def owner_of(slice_: Serving, node: str = "n-1", boot: str = "b-1") -> objects.Owner:
    return objects.Owner(slice_.name, "us-central2-b", slice_.type, slice_.chips, node, boot)


class Lossy(MemoryBucket):
    """One whose next answers are lost, as `fault` wants: after the write, or before it."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Callable[[str, str], str] = lambda _method, _name: ""

    def _lossy(self, method: str, *words: Any) -> Any:
        fault = self.fault(method, words[0])
        if fault == "before":
            raise NoAnswer("503")
        answer = getattr(MemoryBucket, method)(self, *words)
        if fault == "after":
            raise NoAnswer("timed out")
        return answer

    def get(self, *words: Any) -> Any:
        return self._lossy("get", *words)

    def put(self, *words: Any) -> Any:
        return self._lossy("put", *words)

    def patch(self, *words: Any) -> Any:
        return self._lossy("patch", *words)

    def delete(self, *words: Any) -> Any:
        return self._lossy("delete", *words)

    def once(self, method: str, name: str, fault: str, times: int = 1) -> None:
        left = [times]

        def choose(asked: str, about: str) -> str:
            if asked == method and about.startswith(name) and left[0]:
                left[0] -= 1
                return fault
            return ""

        self.fault = choose


@pytest.fixture
def bucket() -> Lossy:
    return Lossy()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(bucket: Lossy, clock: Clock) -> Queue:
    return new_queue(bucket, clock)


def new_queue(bucket: MemoryBucket, clock: Clock) -> Queue:
    return Queue(
        bucket,
        now=lambda: clock.now,
        clock=lambda: clock.now,
        pause=lambda _seconds: None,
        chance=random.Random(1),  # noqa: S311
    )


def submit(queue: Queue, name: str, person: str = "alice", **more: Any) -> Seen:
    again = more.pop("again", False)
    definition = objects.Definition(name, person, person, ("true",), "jax", 1.0, **more)
    turn = turn_of(person, definition.priority, queue.all().states)
    text = objects.definition_text(definition)
    return queue.submit(definition, objects.Signed(text, "signature"), turn, again)


def take(queue: Queue, slice_: Serving = PAIR, **more: Any) -> Seen:
    mine = queue.claim_next(slice_, owner_of(slice_), **more)
    assert mine is not None
    return mine


def names(bucket: MemoryBucket, prefix: str) -> list[str]:
    return [name for name in bucket.items if name.startswith(prefix)]


def test_a_run_is_submitted_taken_renewed_and_done(queue: Queue, bucket: Lossy) -> None:
    heard = queue.heard()
    submit(queue, "lr-1")
    assert queue.heard() != heard
    mine = take(queue)
    assert (mine.run.state, mine.run.claims, mine.run.owner) == ("running", 1, owner_of(PAIR))
    assert names(bucket, "waiting/") == []
    assert names(bucket, "running/") == ["running/alice/lr-1/1"]
    assert queue.claim_next(SOLO, owner_of(SOLO)) is None
    renewed = queue.renew(mine)
    assert renewed is not None
    assert renewed[1:] == (mine.generation, 2)
    done = queue.finish(renewed, Outcome(objects.DONE, exit_code=0, attempt=3))
    assert done is not None
    assert (done.run.state, done.run.owner, done.run.last) == ("done", None, "pair")
    assert names(bucket, "running/") == []
    assert queue.definition(done.run.definition).signature == "signature"


def test_the_first_run_of_each_goes_before_the_second_of_any(queue: Queue) -> None:
    for number in range(3):
        submit(queue, f"a-{number}")
    first = take(queue)
    submit(queue, "b-0", "bob")
    submit(queue, "high", "carol", priority=5)
    order = [first.run.name, *(take(queue).run.name for _ in range(4))]
    assert order == ["a-0", "high", "b-0", "a-1", "a-2"]


def test_one_who_submits_all_the_time_keeps_no_other_waiting(queue: Queue) -> None:
    for number in range(5):
        submit(queue, f"z-{number}", "zoe")
    taken = []
    for number in range(10):
        submit(queue, f"a-{number}", "alice")
        mine = take(queue)
        taken.append(mine.run.name)
        queue.finish(mine, Outcome(objects.DONE))
    assert {f"z-{number}" for number in range(5)} <= set(taken)


def test_what_does_not_fit_is_passed_over(queue: Queue) -> None:
    submit(queue, "big", types=("v4-16",))
    submit(queue, "other", slices=("solo",))
    submit(queue, "later", after=("other",))
    submit(queue, "forbidden")
    submit(queue, "good")
    mine = take(queue, may=lambda run: "no signature" if run.name == "forbidden" else "")
    assert mine.run.name == "good"
    assert queue.claim_next(PAIR, owner_of(PAIR), may=lambda _run: "no") is None


def test_a_run_waits_until_the_one_before_is_done(queue: Queue) -> None:
    submit(queue, "one")
    submit(queue, "two", after=("one",))
    first = take(queue)
    assert queue.claim_next(SOLO, owner_of(SOLO)) is None
    queue.finish(first, Outcome(objects.FAILED, "exit 1"))
    assert queue.claim_next(SOLO, owner_of(SOLO)) is None
    queue.retry("one", "alice")
    queue.finish(take(queue), Outcome(objects.DONE))
    assert take(queue).run.name == "two"


def test_a_name_is_taken_until_its_run_has_ended_and_again_is_said(queue: Queue) -> None:
    submit(queue, "lr")
    with pytest.raises(Exists, match="lr of alice is there, and waiting: choose another name"):
        submit(queue, "lr", retries=1)
    queue.finish(take(queue), Outcome(objects.DONE, attempt=4))
    with pytest.raises(Exists, match="--again"):
        submit(queue, "lr", retries=1)
    again = submit(queue, "lr", retries=1, again=True).run
    assert (again.state, again.round, again.attempt, again.claims) == ("waiting", 2, 4, 1)


def test_a_claim_whose_answer_is_lost_is_a_claim(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "lr")
    bucket.once("put", "runs/", "after")
    assert take(queue).run.claims == 1


def test_a_claim_that_no_answer_follows_is_given_back(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "lr")
    bucket.fault = lambda method, name: "after" if (method, name) == ("put", "runs/lr") else ""
    with pytest.raises(NoAnswer):
        queue.claim_next(PAIR, owner_of(PAIR))
    bucket.fault = lambda _method, _name: ""
    assert take(queue).run.claims == 2


def test_a_renewal_whose_answer_is_lost_renews(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "lr")
    mine = take(queue)
    bucket.once("patch", "runs/", "after")
    renewed = queue.renew(mine)
    assert renewed is not None
    assert renewed.metageneration == 3


def test_an_end_whose_answer_is_lost_is_one_end(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "lr")
    mine = take(queue)
    bucket.once("put", "runs/", "after", 9)
    with pytest.raises(NoAnswer):
        queue.finish(mine, Outcome(objects.DONE))
    bucket.once("put", "runs/", "")
    done = queue.finish(mine, Outcome(objects.DONE))
    assert done is not None
    assert done.run.state == "done"


def test_what_was_counted_is_there_for_the_next_slice(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "lr")
    mine = take(queue)
    faults = iter(["after"])
    bucket.fault = lambda method, _name: next(faults, "") if method == "put" else ""
    noted = queue.note(mine, 2, 1)
    assert noted is not None
    assert (noted.run.attempt, noted.run.failures) == (2, 1)
    # The claim goes on from there, and only from there.
    assert queue.renew(mine) is None
    assert queue.renew(noted) is not None
    queue.tend(nodes=lambda _owner: Node("PREEMPTED", "n-1"))
    run = queue.read("lr").run
    assert (run.state, run.attempt, run.failures) == ("waiting", 2, 1)
    assert queue.note(noted, 3, 2) is None


def test_a_zombie_can_neither_renew_nor_end(queue: Queue) -> None:
    submit(queue, "lr")
    old = take(queue)
    assert queue.take_away(old, "pair was created again") is not None
    new = take(queue, SOLO)
    assert queue.renew(old) is None
    assert queue.finish(old, Outcome(objects.DONE)) is None
    assert queue.give_back(old, "preempted") is None
    assert queue.read("lr") == new


def test_what_was_renewed_is_not_taken_away(queue: Queue) -> None:
    submit(queue, "lr")
    seen = take(queue)
    assert queue.renew(seen)
    assert queue.take_away(seen, "pair was silent") is None


def test_a_run_that_is_given_back_goes_first_and_has_not_failed(queue: Queue) -> None:
    submit(queue, "one")
    submit(queue, "two")
    back = queue.give_back(take(queue), "pair is preempted", attempt=2, failures=1)
    assert back is not None
    assert (back.run.state, back.run.failures, back.run.attempt) == ("waiting", 1, 2)
    assert take(queue).run.name == "one"


def test_a_waiting_run_is_stopped_at_once(queue: Queue) -> None:
    submit(queue, "lr")
    run = queue.stop("lr", "bob")
    assert run is not None
    assert (run.state, run.reason) == ("stopped", "stopped by bob")
    assert queue.claim_next(PAIR, owner_of(PAIR)) is None
    assert queue.stop("unknown", "bob") is None


def test_a_wish_to_stop_holds_until_the_run_has_ended_and_not_after(queue: Queue) -> None:
    submit(queue, "lr")
    mine = take(queue)
    stopped = queue.stop("lr", "bob")
    assert stopped is not None
    assert stopped.state == "running"
    assert queue.wish(mine.run).person == "bob"
    assert queue.take_away(mine, "pair is preempted").run.state == "stopped"
    queue.retry("lr", "alice")
    again = take(queue)
    assert queue.wish(again.run) is None
    queue.stop("lr", "carol")
    assert queue.wish(again.run).person == "carol"


def test_a_wish_that_came_between_stops_what_waits(queue: Queue) -> None:
    submit(queue, "lr")
    mine = take(queue)
    wished = queue.stop("lr", "bob")
    assert wished is not None
    # An owner that had looked before it gave back.
    new = claims.given_back(mine.run, "preempted", "1" * 32, 1.0)
    assert queue._announced(queue._swapped(new, mine))
    assert queue.claim_next(SOLO, owner_of(SOLO)) is None
    assert queue.read("lr").run.state == "stopped"


@pytest.mark.parametrize("limit", [Limits(runs=2), Limits(chips=8)])
def test_a_person_has_no_more_than_the_limit(queue: Queue, limit: Limits) -> None:
    for number in range(3):
        submit(queue, f"a-{number}")
    submit(queue, "b-0", "bob")
    taken = [take(queue, limit=limit) for _ in range(3)]
    assert [one.run.name for one in taken] == ["a-0", "b-0", "a-1"]
    assert queue.claim_next(PAIR, owner_of(PAIR), limit=limit) is None
    queue.finish(taken[0], Outcome(objects.DONE))
    assert take(queue, limit=limit).run.name == "a-2"


def test_two_that_claim_at_once_keep_the_limit(bucket: Lossy, clock: Clock) -> None:
    one, two = new_queue(bucket, clock), new_queue(bucket, clock)
    submit(one, "a-0")
    submit(one, "a-1")

    def other_is_faster(method: str, name: str) -> str:
        if (method, name) == ("put", "runs/a-0"):
            bucket.fault = lambda _method, _name: ""
            assert two.claim_next(SOLO, owner_of(SOLO), Limits(runs=1)).run.name == "a-0"
        return ""

    bucket.fault = other_is_faster
    assert one.claim_next(PAIR, owner_of(PAIR), Limits(runs=1)) is None
    assert [run.state for run in one.all().states] == ["running", "waiting"]


def arms(queue: Queue, count: int, at_once: int | None, sweep: str = "lr", **more: Any) -> None:
    for number in range(1, count + 1):
        submit(queue, f"{sweep}-{number}", sweep=sweep, at_once=at_once, **more)


def test_of_a_sweep_no_more_arms_run_than_it_may(queue: Queue) -> None:
    arms(queue, 4, at_once=2)
    submit(queue, "other")
    first, second = take(queue), take(queue)
    assert take(queue).run.name == "other"
    assert queue.claim_next(PAIR, owner_of(PAIR)) is None
    queue.finish(first, Outcome(objects.DONE))
    assert take(queue).run.name == "lr-3"
    assert queue.claim_next(PAIR, owner_of(PAIR)) is None
    assert second.run.name == "lr-2"


def test_two_that_claim_arms_at_once_keep_the_maximum_and_try_no_other_arm(
    bucket: Lossy, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sees the other only after its own claim, as it lists what has slices once more."""
    one, other = new_queue(bucket, clock), new_queue(bucket, clock)
    arms(one, 9, at_once=1)
    real, hidden = Queue.holds, [[]]
    monkeypatch.setattr(
        Queue, "holds", lambda self, person: hidden.pop() if hidden else real(self, person)
    )
    taken = take(other, SOLO)
    hidden.append([])
    bucket.asked.clear()
    assert one.claim_next(PAIR, owner_of(PAIR)) is None
    assert bucket.asked["put"] < 8
    runs = {seen.run.name: seen.run for seen in one.all().runs.values()}
    assert [name for name, run in runs.items() if run.owner] == [taken.run.name]
    assert all(run.reason == "" for run in runs.values())


def test_one_who_has_used_the_chip_hours_begins_no_run_until_they_are_old(
    queue: Queue, bucket: Lossy, clock: Clock
) -> None:
    clock.now = 1764413259.0
    limit = Limits(chip_hours=8)
    for name in ("a", "b", "c"):
        submit(queue, name)
    mine = take(queue, limit=limit)
    clock.now += 1.5 * 3600
    queue.finish(mine, Outcome(objects.DONE))
    queue.tend()
    bucket.asked.clear()
    assert take(queue, limit=limit).run.name == "b"
    assert bucket.asked["list"] == 1
    submit(queue, "z", "zoe")
    clock.now += 3600
    assert take(queue, limit=limit).run.name == "z"
    assert queue.claim_next(PAIR, owner_of(PAIR), limit) is None


def test_a_slice_that_is_reserved_takes_no_run_of_others(queue: Queue) -> None:
    submit(queue, "a-1")
    submit(queue, "b-1", "bob")
    only = replace(PAIR, reserved=frozenset({"bob"}))
    assert take(queue, only).run.name == "b-1"
    assert queue.claim_next(only, owner_of(only)) is None
    assert take(queue).run.name == "a-1"


def test_a_hint_that_hides_for_whom_or_what_a_run_is_leads_to_no_claim(
    queue: Queue, bucket: Lossy
) -> None:
    submit(queue, "a-1", types=("v4-16",))
    (name,) = names(bucket, "waiting/")
    seen = queue.read("a-1")
    assert seen is not None
    bucket.put(name, b"", {"run": objects.run_text(replace(seen.run, types=()))})
    assert queue.claim_next(PAIR, owner_of(PAIR)) is None


def test_all_see_how_far_a_run_is(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "lr-1")
    mine = queue.renew(take(queue), objects.Progress(7, 0.25))
    assert mine is not None
    (run,) = queue.all().states
    assert (run.step, run.loss) == (7, 0.25)
    bad = {"progress": '{"loss":1e999,"step":9}'}
    assert bucket.patch("runs/lr-1", bad, mine.generation, mine.metageneration)
    (run,) = queue.all().states
    assert (run.state, run.step, run.loss) == ("running", None, None)
    found = queue.read("lr-1")
    assert found is not None
    queue.finish(mine._replace(metageneration=found.metageneration), Outcome(objects.DONE))
    (run,) = queue.all().states
    assert (run.state, run.step, run.loss) == ("done", 7, 0.25)


def test_the_arms_of_a_sweep_are_one_list(queue: Queue, bucket: Lossy) -> None:
    arms(queue, 3, at_once=None)
    submit(queue, "lr-x-1", sweep="lr-x")
    submit(queue, "lr-9")
    first = take(queue)
    bucket.asked.clear()
    found = queue.arms(first.run)
    assert [(one.name, one.state) for one in found] == [
        *(("lr-1", "running"), ("lr-2", "waiting"), ("lr-3", "waiting"))
    ]
    assert bucket.asked == {"list": 1}


def test_a_rule_is_the_reason_of_what_it_stops(queue: Queue) -> None:
    submit(queue, "lr-1")
    submit(queue, "lr-2")
    mine = take(queue)
    for name in ("lr-1", "lr-2"):
        queue.stop(name, "alice", "median 0.4")
    wish = queue.wish(mine.run)
    assert wish is not None
    assert wish.why == "stopped by on_result: median 0.4"
    waited = queue.read("lr-2")
    assert waited is not None
    assert waited.run.reason == "stopped by on_result: median 0.4"
    again = submit(queue, "lr-2", "bob", again=True).run
    queue.stop("lr-2", "alice", "median 0.4", waited.run.definition)
    assert queue.read("lr-2").run == again


def test_a_false_hint_keeps_no_limit(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "lr")
    bucket.put("running/alice/gone/1", b"", {"chips": "4"})
    bucket.put("running/alice/%", b"", {})
    assert take(queue, limit=Limits(runs=1))
    assert "running/alice/gone/1" not in bucket.items


def test_a_machine_takes_up_its_own_run_after_a_boot(queue: Queue) -> None:
    submit(queue, "lr")
    mine = take(queue)
    again = queue.adopt("lr", owner_of(PAIR, boot="b-2"))
    assert again is not None
    assert (again.run.claims, again.run.owner.boot) == (1, "b-2")
    assert queue.renew(mine) is None
    assert queue.adopt("lr", owner_of(PAIR, node="n-2")) is None


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        ({"here": owner_of(PAIR, node="n-2")}, "pair was created again"),
        ({"here": owner_of(PAIR)}, "the answer to the claim was lost"),
        ({"nodes": lambda _owner: Node("PREEMPTED", "n-1")}, "pair is preempted"),
        ({"nodes": lambda _owner: Node("", "")}, "pair was deleted"),
        ({"nodes": lambda _owner: Node("READY", "n-9")}, "pair was created again"),
        ({"nodes": lambda _owner: Node("READY", "n-1")}, None),
        ({"nodes": lambda _owner: Node("READY", "")}, None),
        ({"here": owner_of(SOLO)}, None),
        ({"here": owner_of(PAIR), "held": ["lr"]}, None),
        ({"here": replace(owner_of(PAIR, node="n-2"), zone="us-east1-c")}, None),
        ({}, None),
    ],
)
def test_a_run_is_taken_by_evidence_alone(
    queue: Queue, clock: Clock, who: dict[str, Any], reason: str | None
) -> None:
    submit(queue, "lr")
    take(queue)
    queue.tend(**who)
    clock.now += 10**6
    queue.tend(**who)
    run = queue.read("lr").run
    assert (run.state, run.reason) == (("waiting", reason) if reason else ("running", ""))


def test_elapsed_time_counts_only_where_it_is_set(queue: Queue, clock: Clock) -> None:
    submit(queue, "lr")
    mine = take(queue)
    queue.tend(take_after=60.0)
    clock.now += claims.LOST - 1
    queue.tend(take_after=60.0)
    mine = queue.renew(mine)
    clock.now += 2
    queue.tend(take_after=60.0)
    clock.now += claims.LOST
    queue.tend()
    assert queue.read("lr").run.state == "running"
    queue.tend(take_after=60.0)
    assert queue.read("lr").run.reason == "pair was silent for 15 minutes"


def test_hints_are_repaired(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "one")
    submit(queue, "two")
    take(queue)
    wanted = {*names(bucket, "waiting/"), *names(bucket, "running/")}
    for name in wanted:
        bucket.delete(name)
    for name in ("waiting/9/000000000/alice/one", "running/alice/one/7", "stop/none", "stop/one"):
        bucket.put(name, b"", {})
    queue.tend()
    left = {name for name in bucket.items if name.split("/")[0] in ("waiting", "running", "stop")}
    assert left == wanted


def test_a_bad_object_costs_only_itself(queue: Queue, bucket: Lossy) -> None:
    submit(queue, "good")
    for name, text in [("bad", "{}"), ("other", objects.run_text(queue.read("good").run))]:
        bucket.put(f"runs/{name}", text.encode(), {"run": text})
    listing = queue.all()
    assert set(listing.runs) == {"good"}
    assert set(listing.refused) == {"runs/bad", "runs/other"}
    assert take(queue).run.name == "good"


def test_what_ended_long_ago_leaves_the_list_and_is_found_by_name(
    queue: Queue, bucket: Lossy, clock: Clock
) -> None:
    for name in ("done", "failed", "before"):
        submit(queue, name)
        outcome = Outcome(objects.FAILED if name == "failed" else objects.DONE, attempt=3)
        queue.finish(take(queue), outcome)
    submit(queue, "waits", after=("before",), types=("v4-16",))
    queue.tend()
    assert len(queue.all().runs) == 4
    clock.now += tending.KEPT + 1
    queue.tend()
    assert set(queue.all().runs) == {"before", "waits"}
    assert queue.read("done").run.state == "done"
    with pytest.raises(Exists):
        submit(queue, "done")
    again = submit(queue, "done", again=True).run
    assert (again.round, again.attempt, again.state) == (2, 3, "waiting")
    assert queue.retry("failed", "alice").round == 2
    assert {"done", "failed"} <= set(queue.all().runs)
    submit(queue, "later", after=("done",))
    assert take(queue).run.name == "done"


def test_one_whose_clock_is_wrong_moves_nothing_that_it_has_just_seen(
    queue: Queue, bucket: Lossy, clock: Clock
) -> None:
    submit(queue, "lr")
    assert queue.stop("lr", "alice")
    ahead = new_queue(bucket, clock)
    ahead._now = lambda: clock.now + 10**6
    ahead.tend()
    clock.now += tending.SETTLED - 1
    ahead.tend()
    assert set(queue.all().runs) == {"lr"}
    clock.now += 1
    ahead.tend()
    assert set(queue.all().runs) == set()


def test_a_run_that_is_retried_while_it_is_moved_stays(
    queue: Queue, bucket: Lossy, clock: Clock
) -> None:
    submit(queue, "lr")
    queue.finish(take(queue), Outcome(objects.FAILED))
    queue.tend()
    clock.now += tending.KEPT + 1

    def retried(method: str, name: str) -> str:
        if (method, name) == ("delete", "runs/lr"):
            bucket.fault = lambda _method, _name: ""
            assert new_queue(bucket, clock).retry("lr", "bob").state == "waiting"
        return ""

    bucket.fault = retried
    queue.tend()
    assert take(queue).run.round == 2


@pytest.mark.parametrize("more", [{"claims": objects.MOST_COUNT}, {"reason": "\U0001f600" * 300}])
def test_a_state_at_a_bound_keeps_no_other_waiting(
    queue: Queue, bucket: Lossy, more: dict[str, Any]
) -> None:
    run = replace(submit(queue, "bound").run, **more)
    for prefix in ("runs/bound", objects.hint_name(run)):
        text = objects.run_text(run)
        bucket.put(prefix, text.encode(), {"run": text})
    submit(queue, "good")
    taken = [queue.claim_next(PAIR, owner_of(PAIR)) for _ in range(2)]
    assert "good" in [one.run.name for one in taken if one]
    queue.tend(owner_of(PAIR, node="n-2"))
