"""Writers in a bucket, whatever happens: one attempt writes, and it goes on from what was saved."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from simulation import writers
from simulation.writers import World, lives

# The agent comes with the simulation, which knows where it lies.
from run_agent.act import (  # isort: skip
    bucket_guard,
    bucket_requests,
    environment,
    fence_object,
    preparation,
    restore_search,
)
from run_agent.decide import checkpoints, fence, reports, status  # isort: skip
from run_agent.decide.run_states import RUNNING  # isort: skip
from run_agent.talk import leader  # isort: skip

PARTS = 2
LIVES = max(PARTS, int(os.environ["TPU_FLEET_PROPERTY_RUNS"]) // 16)
SEED = int(os.environ["TPU_FLEET_PROPERTY_SEED"])
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("part", range(PARTS))
def test_one_attempt_writes_and_nothing_is_lost(part: int) -> None:
    for number in range(part, LIVES, PARTS):
        seed = SEED * 1000 + number
        world = World(seed)
        world.live()
        assert world.broken == [], f"seed {seed}\n{world.story()}"


def write_over_any(patch: pytest.MonkeyPatch) -> None:
    real = bucket_requests.Bucket.write
    patch.setattr(
        bucket_requests.Bucket,
        "write",
        lambda self, name, data, _generation: real(self, name, data),
    )


def start_without_a_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bucket_guard.BucketGuard, "claim", lambda _self: "")
    patch.setattr(preparation.Preparation, "_judge_object", lambda *_words: "")


def overlook_who_has_the_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bucket_guard.BucketGuard, "_judged", lambda _self, _found: "")


def wait_for_none(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fence.Patience, "left", lambda _self, _mark, _now: 0.0)


def hold_none(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bucket_guard.BucketGuard, "_stood_still", lambda _self, _since: False)


def trust_worker_0_for_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bucket_guard, "_SILENCE", 6.0)


def take_nothing_over(patch: pytest.MonkeyPatch) -> None:
    real = fence.claimed
    patch.setattr(
        fence, "claimed", lambda found, claim: real(found, claim._replace(is_new=found is None))
    )


def come_again_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    real = writers.facts_of
    patch.setattr(writers, "facts_of", lambda ready: {**real(ready), "named": ""})


def begin_from_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restore_search, "folder", lambda *_words: None)


def give_a_start_up_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(status, "_BIRTH_SECONDS", 1.0)


def delete_what_is_written(patch: pytest.MonkeyPatch) -> None:
    def leftovers(found: Any) -> list[Any]:
        return [one for one in found if one.state == checkpoints.UNFINISHED]

    patch.setattr(checkpoints, "leftovers", leftovers)


def share_one_folder(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(environment, "checkpoint_dir", lambda *_words: "gs://lab/lm/attempt-1")


def share_one_folder_with_others(patch: pytest.MonkeyPatch) -> None:
    share_one_folder(patch)
    overlook_who_has_the_fence(patch)


def release_what_others_still_run(patch: pytest.MonkeyPatch) -> None:
    def all_ended(gang: Any, seen: Any, _policy: Any) -> bool:
        return gang.phase != RUNNING and gang.attempt > 0 and seen[0][0].idle

    patch.setattr(reports, "all_ended", all_ended)
    patch.setattr(leader.Leader, "ending", lambda _self: False)  # nor does it wait for them


def release_what_another_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        fence,
        "released",
        lambda found, _owner, _attempt: found and found._replace(ended=True, reserved=False),
    )


def clear_up_as_an_agent(patch: pytest.MonkeyPatch) -> None:
    real = fence_object.FenceObject.read_once

    def read_once(self: Any) -> Any:
        found = real(self)
        self._bucket().delete(self._place["name"])
        return found

    patch.setattr(fence_object.FenceObject, "read_once", read_once)


BROKEN: list[tuple[Break, str, int]] = [
    (write_over_any, "the fence went from", 5),
    (start_without_a_look, "was decided by", 1),
    (share_one_folder_with_others, "is whole and mixed", 18),
    (share_one_folder, "which was whole", 62),
    (start_without_a_look, "although the fence names it not", 1),
    (overlook_who_has_the_fence, "runs on", 1),
    (wait_for_none, "after a later one had begun", 3),
    (hold_none, "after a later one had begun", 39),
    (trust_worker_0_for_long, "after a later one had begun", 6),
    (take_nothing_over, "the run does not go on", 1),
    (come_again_after_a_restart, "came again", 72),
    (begin_from_nothing, "lost attempt", 2),
    (give_a_start_up_too_early, "was counted of none", 1),
    (delete_what_is_written, "was deleted as a leftover", 10),
    (release_what_others_still_run, "after a later one had begun", 56),
    (release_what_others_still_run, "is said to have ended, and it runs", 6),
    (release_what_another_has, "is said to have ended, and it runs", 15),
    (clear_up_as_an_agent, "an agent deleted", 1),
]


# CI has these, and the stage broken_worlds all.
IN_CI = (
    write_over_any, start_without_a_look, hold_none, begin_from_nothing,
    release_what_others_still_run,
)  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "words", "first"),
    [
        pytest.param(
            *case,
            marks=() if case[0] in IN_CI else pytest.mark.night,
            id=f"{case[0].__name__}-{case[1].split()[-1]}",
        )
        for case in BROKEN
    ],
)
def test_what_is_broken_is_found(
    broken: Break, words: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first life that finds it is known, and others follow where it does so no longer."""
    broken(monkeypatch)
    found = lives(iter(range(first, first + 60)), lambda said: any(words in one for one in said))
    assert found is not None, f"no life broke the rule: {words}"
    print(f"seed {found.seed}")
