"""The story of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tpu_fleet.history.store import Event, Point, Span
from tpu_fleet.history.story import RunStory, attempts_of, news_of, runs_of, workers_of
from tpu_fleet.workers.ask.run_view import RunView

DAY = 20_000 * 86400.0


def event(at: float, name: str, attempt: int, worker: int = 0, **detail: Any) -> Event:
    return Event(at, "pair", "digits", worker, name, attempt, detail)


def gang(at: float, name: str, attempt: int, **detail: Any) -> list[Event]:
    return [event(at + worker, name, attempt, worker, **detail) for worker in (0, 1)]


def told(events: list[Event], state: str = "running", now: float = 1000.0, **more: Any) -> Any:
    return attempts_of(sorted(events), more.get("lost", ()), more.get("steps", ()), state, now)


CRASH = [
    *gang(100, "attempt-started", 1),
    event(200, "attempt-ended", 1, 1, exit_code=None, signal=9, first_step=0, step=50),
    event(202, "attempt-ended", 1, 0, exit_code=143, cause="worker 1: killed by signal 9", step=49),
    *gang(210, "attempt-started", 2),
]


def test_a_gang_has_one_attempt_at_a_time() -> None:
    first, second = told(CRASH)
    assert (first.number, first.begun, first.ended, first.down) == (1, 100, 200, 10)
    assert (first.kind, first.why, first.step) == ("crashed", "worker 1: killed by signal 9", 50)
    assert (second.number, second.ended, second.kind) == (2, None, "")


def test_steps_that_were_done_again_are_counted() -> None:
    events = [
        *CRASH,
        event(300, "attempt-ended", 2, 0, exit_code=0, cause="", first_step=41, step=90),
    ]
    first, second = told(events, "succeeded")
    assert first.again == 10
    assert (second.kind, second.down) == ("succeeded", None)


def test_where_an_attempt_began_is_known_before_it_ends_and_without_a_sampled_step() -> None:
    steps = [Point("pair", "digits", "step", at, step, step) for at, step in ((150, 30), (260, 40))]
    starts = gang(230, "first-step", 2, first_step=21, parts={}, counts={})
    first, second = told([*CRASH, *starts], steps=steps)
    assert (first.first_step, second.first_step, first.again) == (0, 21, 30)
    # Agents of an earlier version do not say it there.
    _first, second = told([*CRASH, *gang(230, "first-step", 2, parts={})], steps=steps)
    assert second.first_step == 40
    assert RunStory("pair", "digits", attempts=(first, second)).begins == [(100, 0), (210, 40)]


def test_a_slice_that_was_lost_with_its_event_log() -> None:
    steps = [Point("pair", "digits", "step", at, int(at), at) for at in (150.0, 180.0, 650.0)]
    events = [*gang(100, "attempt-started", 1), *gang(600, "attempt-started", 2)]
    first, second = told(events, lost=[190.0], steps=steps)
    assert (first.kind, first.ended, first.down, first.step) == ("preempted", 180, 420, 180)
    assert second.ended is None


def test_the_numbers_of_a_machine_that_forgot_begin_anew() -> None:
    events = [*CRASH, event(300, "attempt-ended", 2, 0, cause="told to stop")]
    events += [event(400, "attempt-started", 1)]
    assert [one.number for one in told(events)] == [1, 2, 1]


def test_an_interruption_that_lasts_counts_until_now() -> None:
    events = [*gang(100, "attempt-started", 1), event(200, "attempt-ended", 1, 0, cause="rebooted")]
    (only,) = told(events, "restarting", now=500.0)
    assert (only.kind, only.down) == ("rebooted", 300.0)


def test_goodput_is_without_downtime_and_repeated_steps() -> None:
    steps = [Point("pair", "digits", "step", float(at), at, at) for at in range(100, 200, 10)]
    run = RunStory(
        "pair", "digits", state="running", attempts=tuple(told(CRASH, now=300.0)),
        curves={"step": steps}, view=RunView("digits", "pair", saved_at=250.0, saved_age=40.0),
        seen_at=290.0, chips=8, until=300.0,
    )  # fmt: skip
    assert run.pace == 1.0
    assert run.goodput == pytest.approx(1 - 10 / 200)
    assert (run.at_risk, run.saved_age) == (50.0, 50.0)


@pytest.mark.parametrize(
    ("now", "at_risk", "age"),
    [
        # A checkpoint of an earlier attempt saves nothing of this one.
        ({"saved_at": 150.0, "saved_age": 150.0}, 90.0, 150.0),
        # None was written.
        ({"saved_at": 0.0}, 90.0, None),
        # Nobody can look: it is in a bucket, or the agent has not looked yet.
        ({"saved_at": None}, None, None),
        ({}, None, None),
    ],
)
def test_what_a_checkpoint_saves(
    now: dict[str, Any], at_risk: float | None, age: float | None
) -> None:
    run = RunStory(
        "pair", "digits", state="running", attempts=tuple(told(CRASH, now=300.0)),
        view=RunView("digits", "pair", **now), seen_at=300.0, until=300.0,
    )  # fmt: skip
    assert (run.at_risk, run.saved_age) == (at_risk, age)


def test_a_run_whose_event_log_nobody_reads_has_what_was_seen() -> None:
    seen = [
        Span("run", "pair/digits", {"state": state, "attempt": number, "user": "alice"}, a, b)
        for state, number, a, b in (
            ("running", 1, 0, 100), ("restarting", 1, 100, 110), ("running", 2, 110, 200),
        )
    ]  # fmt: skip
    (run,) = runs_of([], seen, [], {}, {}, 0.0, 200.0)
    assert [(a.begun, a.ended, a.down) for a in run.attempts] == [(0, 100, 10), (110, None, None)]
    assert run.user == "alice"


@pytest.mark.parametrize(
    ("since", "begun"),
    [
        (None, 110),
        (104.0, 104.0),
        # By the clock of a worker, which may be wrong: the one before was seen until then.
        (50.0, 100),
        (150.0, 110),
    ],
)
def test_the_last_attempt_that_was_seen_began_when_its_worker_says(
    since: float | None, begun: float
) -> None:
    seen = [
        Span("run", "pair/digits", {"state": "running", "attempt": number}, a, b)
        for number, a, b in ((1, 0, 100), (2, 110, 200))
    ]
    view = RunView("digits", "pair", state="running", since=since, saved_at=20.0, saved_age=180.0)
    (run,) = runs_of([], seen, [], {}, {"pair/digits": (200.0, view.to_dict())}, 0.0, 200.0)
    assert [one.begun for one in run.attempts] == [0, begun]
    assert run.at_risk == 200.0 - begun


def test_an_attempt_that_began_before_the_time_of_the_page_is_there() -> None:
    # Of the time before only the begins are known.
    begins = [*gang(100, "attempt-started", 1), *gang(300, "attempt-started", 2)]
    events = [*begins, *gang(900, "attempt-ended", 2, exit_code=9)]
    events += gang(910, "attempt-started", 3)
    (run,) = runs_of(sorted(events), [], [], {}, {}, 800.0, 1000.0)
    assert [(one.number, one.begun, one.kind) for one in run.attempts] == [
        (2, 300, "crashed"), (3, 910, ""),
    ]  # fmt: skip


def test_between_success_and_a_new_declaration_a_run_is_not_down() -> None:
    events = [
        *gang(100, "attempt-started", 1),
        *gang(200, "attempt-ended", 1, exit_code=0, cause="", step=100),
        *gang(800, "attempt-started", 2),
    ]
    first, second = told(events, now=900.0)
    assert (first.kind, first.down, first.interrupted) == ("succeeded", None, False)
    run = RunStory("pair", "digits", state="running", attempts=(first, second), until=900.0)
    # 101 s until both workers had ended, and 100 s since it began again.
    assert (run.span, run.down, run.goodput) == (201.0, 0.0, 1.0)


FAILED = [
    event(at, name, number, exit_code=1, step=30, **({"first_step": 1} if number > 1 else {}))
    for number, begun in enumerate((100.0, 110.0, 120.0), start=1)
    for at, name in ((begun, "attempt-started"), (begun + 8, "attempt-ended"))
]


def test_the_goodput_of_a_run_that_stands_still_stands_still() -> None:
    steps = [Point("pair", "digits", "step", at, 30, 30.0) for at in (107.0, 117.0, 127.0)]
    seen = set()
    for now in (140.0, 700.0, 90_000.0):
        attempts = tuple(told(FAILED, "failed", now=now, steps=steps))
        for state in ("failed", "stopped"):
            run = RunStory(
                "pair", "digits", state=state, attempts=attempts, until=now,
                curves={"step": steps}, view=RunView("digits", "pair", speed=3.75),
            )  # fmt: skip
            seen.add((run.span, run.goodput))
    assert len(seen) == 1


def test_pace_is_that_within_attempts() -> None:
    # Between two attempts lies a restart, not a step.
    at = ((101.0, 1), (105.0, 5), (111.0, 6), (115.0, 10))
    steps = [Point("pair", "digits", "step", when, step, float(step)) for when, step in at]
    attempts = tuple(told(FAILED, "failed", steps=steps))
    run = RunStory("pair", "digits", attempts=attempts, curves={"step": steps}, until=1000.0)
    assert run.pace == 1.0


def test_what_several_workers_report_at_once_is_one_event() -> None:
    events = [
        *gang(100, "maintenance-announced", 1, when="soon"),
        *gang(100, "agent-started", 1),
        event(150, "disk-low", 1, 1, what="/ has 1 MB left"),
        event(900, "maintenance-announced", 1, 0, when="soon"),
    ]
    found = [(one.at, one.name, workers_of(one)) for one in news_of(events)]
    assert found == [
        (100, "maintenance-announced", [0, 1]),
        (150, "disk-low", [1]),
        (900, "maintenance-announced", [0]),
    ]


def story_of(events: list[Event], view: RunView, lost: float | None = None) -> RunStory:
    spans = [Span("run", "pair/digits", {"state": view.state, "attempt": 1}, 100.0, 900.0)]
    gone = [Event(lost, "pair", "", -1, "preempted")] if lost else []
    facts = {"pair/digits": (900.0, view.to_dict())}
    (found,) = runs_of([*events, *gone], spans, [], {}, facts, 0.0, 900.0)
    return found


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("own disk", "its checkpoints were deleted with its own disk"),
        ("bucket", "its checkpoints are kept (bucket)"),
        ("data disk", "its checkpoints are kept (data disk)"),
        ("", ""),
    ],
)
def test_what_a_preemption_does_to_the_checkpoints_is_said(place: str, said: str) -> None:
    view = RunView("digits", "pair", state="running", checkpoints_on=place)
    events = [*gang(100, "attempt-started", 1), *gang(700, "attempt-started", 2)]
    first = story_of(events, view, lost=300.0).attempts[0]
    assert (first.kind, first.why) == ("preempted", said)


def test_a_run_that_is_taken_out_of_the_fleet_file_was_not_stopped_by_hand() -> None:
    events = [
        *gang(100, "attempt-started", 1),
        *gang(300, "attempt-ended", 1, cause="told to stop"),
    ]
    by_hand = story_of(events, RunView("digits", "pair", state="stopped"))
    assert [one.kind for one in by_hand.interruptions] == ["stopped"]
    removed = story_of(events, RunView("digits", "pair", state="removed"))
    assert (removed.attempts[-1].words, removed.interruptions) == ("no longer declared", [])


def test_what_the_next_machine_writes_is_no_sign_of_life_of_the_one_before() -> None:
    steps = [Point("pair", "digits", "step", at, int(at), at) for at in (150.0, 290.0)]
    events = [
        event(100, "attempt-started", 1, boot_id="first"),
        event(869, "agent-started", 0, boot_id="second"),
        event(870, "attempt-started", 1, boot_id="second"),
    ]
    first, _second = told(events, steps=steps)
    assert (first.kind, first.ended, first.down) == ("preempted", 290, 580)


PARTS = {"wait": 2.0, "prepare": 1.0, "import": 3.0, "compile": 20.0, "first_step": 6.0}
INSIDE = {"init": 10.0, "restore": 0.0, "compile": 20.0, "data": 5.0, "save": 5.0, "step": 60.0}


def run_with(events: list[Event], now: float = 300.0, **view: Any) -> RunStory:
    facts = {"pair/digits": (now, {"attempt": 2, "state": "running", **view})}
    seen = [Span("run", "pair/digits", {"state": "running", "attempt": 2}, 100, now)]
    (run,) = runs_of(events, seen, [], {}, facts, 0.0, now)
    return run


def test_goodput_is_without_what_an_attempt_needs_for_other_things_than_steps() -> None:
    starts = [
        event(131, "first-step", 1, worker, parts={**PARTS, "compile": 20.0 - worker}, counts={})
        for worker in (0, 1)
    ]
    crash = [
        replace(one, detail={**one.detail, "inside": INSIDE})
        if one.name == "attempt-ended"
        else one
        for one in CRASH
    ]
    run = run_with(sorted([*crash, *starts]), inside={**INSIDE, "step": 50.0}, start_parts=PARTS)
    first, second = run.attempts
    assert (first.start_parts["compile"], first.inside) == (20.0, INSIDE)
    assert (second.start_parts, second.inside["step"]) == (PARTS, 50.0)
    # Of 200 s it was away for 10 s, and needed 40 s in each attempt for other things.
    assert run.goodput == pytest.approx(1 - (10 + 40 + 40) / 200)
    assert run.spent == {
        "init": 20, "restore": 0, "compile": 40, "data": 10, "save": 10, "step": 110, "again": 0,
        "down": 10,
    }  # fmt: skip


def test_of_an_attempt_whose_inside_is_not_known_all_is_steps() -> None:
    run = run_with(CRASH)
    assert not run.knows_inside
    assert run.spent["step"] == 190
    assert run.goodput == pytest.approx(1 - 10 / 200)


def test_the_figures_of_another_attempt_are_not_those_of_the_last() -> None:
    run = run_with(CRASH, attempt=1, inside=INSIDE, start_parts=PARTS)
    assert [one.inside for one in run.attempts] == [{}, {}]
