"""The objects of the queue: what is written is read back; what is not exact is refused."""

from __future__ import annotations

from dataclasses import replace

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
        name=longest,
        person="p" * 32,
        venv="v" * 63,
        after=tuple(names),
        types=tuple(f"t{'y' * 15}{number:03}-999999" for number in range(objects.MOST_NAMES)),
        slices=tuple(f"s{'z' * 59}{number:03}" for number in range(objects.MOST_NAMES)),
    )
    waits = objects.of_definition(full, objects.MOST_TURN, "f" * 32, 99999999999.123456)
    owner = objects.Owner(
        "s" * 63, "us-central2-b", "t" * 20 + "-999999", 99999, "n" * 128, "b" * 128
    )
    run = claims.claimed(waits, owner, "f" * 32, 99999999999.123456)
    ends = claims.Outcome(objects.FAILED, "\U0001f600" * 999, -255, 10**9, 10**6)
    for state in (run, claims.finished(run, ends, "f" * 32, 99999999999.123456)):
        text = objects.run_text(state)
        assert len(text) < objects.MOST_STATE - 300
        assert objects.run_of(text.encode()) == state
