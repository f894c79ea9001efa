"""The objects of the queue: what is written is read back; what is not exact is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import claims, objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Refused

ALICE = objects.Definition(
    name="lr-1",
    person="alice",
    user="lab",
    command=("python", "train.py", "--lr", "1e-3"),
    venv="jax",
    submitted_at=1764413259.5,
    types=("v4-8",),
    after=("lr-0",),
    sweep="lr",
    at_once=2,
    parameters={"lr": "1e-3"},
    options={"hang_after": "10m", "needs_tpu": False},
)
OWNER = objects.Owner("pair", "us-central2-b", "v4-8", 4, "n-1", "b-1")
WAITS = objects.of_definition(ALICE, 3, "0" * 32, 1764413260.0)


def test_a_definition_is_read_as_it_was_written() -> None:
    text = objects.definition_text(ALICE)
    assert objects.definition_of(text) == ALICE
    signed = objects.Signed(text, "-----BEGIN SSH SIGNATURE-----\nU1\n")
    assert objects.signed_of(objects.signed_bytes(signed)) == signed


@pytest.mark.parametrize(
    "run",
    [
        WAITS,
        replace(WAITS, state=objects.RUNNING, owner=OWNER, last="pair", started_at=1.5),
        replace(WAITS, state=objects.FAILED, ended_at=2.0, exit_code=-9, reason="killed"),
    ],
    ids=lambda run: run.state,
)
def test_a_state_is_read_as_it_was_written(run: objects.Submitted) -> None:
    assert objects.run_of(objects.run_text(run).encode()) == run


def test_all_that_is_wrong_is_said_at_once() -> None:
    bad = replace(ALICE, name="LR", priority=10, command=(), options={"env": {}})
    with pytest.raises(Refused) as found:
        objects.definition_text(bad)
    assert [line.split(":")[0] for line in found.value.why] == [
        *("name", "command", "priority", "options")
    ]
    assert "'LR' must be a name" in found.value.why[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sweep": "other"}, "sweep: lr-1 is no name of a run of other"),
        ({"sweep": ""}, "sweep: it is missing, and at_once or parameters are not"),
        ({"at_once": 0}, "at_once: 0 must be a whole number 1…1000, or null"),
        ({"parameters": {"lr": 1}}, "parameters: {'lr': 1} must be values of a sweep by name"),
        ({"parameters": {"lr": "x" * 900}}, "parameters: {'lr': 'xx"),
        ({"parameters": {"1": ""}}, "parameters: {'1': ''} must be"),
    ],
)
def test_what_is_wrong_with_a_sweep(change: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as found:
        objects.definition_text(replace(ALICE, **change))
    assert found.value.why[0].startswith(words)


@pytest.mark.parametrize("loss", [None, 0.25, 3, "nan", "-inf"])
def test_progress_is_read_as_it_was_written(loss: Any) -> None:
    said = objects.Progress(7, loss)
    assert objects.progress_of(objects.progress_text(said).encode()) == said


@pytest.mark.parametrize(
    "text",
    [
        '{"loss":"bad","step":1}', '{"loss":true,"step":1}', '{"loss":1,"step":-1}', '{"step":1}',
        '{"loss":1e999,"step":1}', '{"loss":null,"step":1.5}', "[]", '{"loss":1,"step":1,"x":1}',
        '{"loss":null,"step":' + "1" * 300 + "}",
    ],
)  # fmt: skip
def test_other_progress_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        objects.progress_of(text.encode())


def test_a_state_says_whether_it_is_of_a_definition() -> None:
    assert objects.is_of(WAITS, ALICE)
    assert not objects.is_of(replace(WAITS, person="bob"), ALICE)
    assert not objects.is_of(WAITS, replace(ALICE, command=("rm",)))


def test_hints_sort_as_the_queue_does() -> None:
    runs = [replace(WAITS, priority=p, turn=t) for p, t in [(9, 2), (9, 10), (0, 1)]]
    names = [objects.hint_name(run) for run in runs]
    assert names == sorted(names)
    assert objects.hint_of(names[1]) == (9, 10, "alice", "lr-1")
    for bad in ("waiting/0/1/alice/lr-1", "waiting/0/000000001/Alice/lr-1", "waiting/x"):
        with pytest.raises(Refused):
            objects.hint_of(bad)


def test_a_state_with_all_that_it_may_have_can_be_written() -> None:
    longest = "x" * 40
    names = [f"{longest[:36]}-{number:03}" for number in range(objects.MOST_NAMES)]
    full = replace(
        ALICE,
        person="p" * 32,
        venv="v" * 63,
        after=tuple(names),
        types=tuple(f"t{'y' * 15}{number:03}-999999" for number in range(objects.MOST_NAMES)),
        slices=tuple(f"s{'z' * 59}{number:03}" for number in range(objects.MOST_NAMES)),
        sweep=longest[:30],
        name=f"{longest[:30]}-{'9' * 9}",
        at_once=1000,
        parameters={"p": "\u00e9" * 148},
    )
    waits = objects.of_definition(full, objects.MOST_TURN, "f" * 32, 99999999999.123456)
    owner = objects.Owner(
        "s" * 63, "us-central2-b", "t" * 20 + "-999999", 99999, "n" * 128, "b" * 128
    )
    one = (objects.MOST_SECOND - 1, objects.MOST_SECOND, objects.MOST_CHIP_SECONDS)
    used = (one,) * objects.MOST_USES
    waits = replace(waits, used=used, step=objects.MOST_STEP, loss=-1.2345678901234567e-289)
    run = claims.claimed(waits, owner, "f" * 32, 99999999999.123456)
    ends = claims.Outcome(objects.FAILED, "\U0001f600" * 999, -255, 10**9, 10**6)
    for state in (run, claims.finished(run, ends, "f" * 32, 99999999999.123456)):
        text = objects.run_text(state)
        assert len(text) < objects.MOST_STATE - 300
        assert objects.run_of(text.encode()) == state
