"""Which attempt may write in a checkpoint folder."""

from __future__ import annotations

import pytest
from run_agent.decide import fence
from run_agent.decide.fence import ELSEWHERE, GO, TAKE_OVER, Claim, Mark

OLD = Mark(7, "old", "digits-1", "vm-a")


@pytest.mark.parametrize(
    ("found", "claimed", "todo"),
    [
        (None, False, GO),
        (None, True, GO),
        (OLD._replace(owner="me"), True, GO),
        (OLD._replace(owner="me", reserved=True), False, GO),
        (OLD, False, TAKE_OVER),  # a slice that is made anew
        (OLD, True, ELSEWHERE),  # one that comes back
    ],
)
def test_whose_the_checkpoint_folder_is(found: Mark | None, claimed: bool, todo: str) -> None:
    assert fence.judge(found, "me", claimed) == todo


@pytest.mark.parametrize(
    ("found", "attempt", "out"),
    [
        (None, 3, False),
        (Mark(3, "me"), 3, False),
        (Mark(2, "other"), 3, False),
        (Mark(4, "other"), 3, True),
        (Mark(4, "me"), 3, True),
        (Mark(3, "other"), 3, True),
        (Mark(3, "me", ended=True), 3, True),
        (Mark(2, "me", ended=True), 3, False),
    ],
)
def test_who_is_shut_out(found: Mark | None, attempt: int, out: bool) -> None:
    assert bool(fence.shuts_out(found, "me", attempt)) is out


def test_who_has_the_folder_is_named_with_its_slice() -> None:
    found = Mark(4, "other", where="vm-b", slice="pair")
    assert fence.shuts_out(found, "me", 3) == "fenced by attempt 4 of slice pair on vm-b"


MINE = Mark(3, "me", "digits-2", "vm-b")


@pytest.mark.parametrize(
    ("found", "is_new", "is_sure", "written"),
    [
        (None, True, False, MINE),
        (None, False, False, MINE),  # it was deleted
        # The numbers go on above those of a slice before, of whose end the heir is not sure.
        (OLD, True, False, Mark(8, "me", "digits-1", "vm-b", reserved=True)),
        (Mark(1, "old", "digits-1"), True, False, Mark(3, "me", "digits-1", "vm-b", reserved=True)),
        (Mark(8, "me", "digits-1", reserved=True), True, False, None),
        (Mark(8, "me", "digits-1", reserved=True), True, True, Mark(8, "me", "digits-1", "vm-b")),
        # The next attempt of the same gang, and one that has its name already.
        (Mark(2, "me", "digits-1"), False, False, Mark(3, "me", "digits-1", "vm-b")),
        (Mark(3, "me", "digits-1"), False, False, None),
        (OLD, False, True, None),  # a gang that comes back takes nothing over
        # Of an attempt that has ended an heir is sure, and its own gang begins none a second time.
        (OLD._replace(ended=True), True, False, Mark(8, "me", "digits-1", "vm-b")),
        (OLD._replace(ended=True), False, False, None),
        (Mark(2, "me", "digits-1", ended=True), False, False, Mark(3, "me", "digits-1", "vm-b")),
        (Mark(3, "me", "digits-1", ended=True), False, False, Mark(4, "me", "digits-1", "vm-b")),
    ],
)
def test_what_a_leader_writes_before_an_attempt(
    found: Mark | None, is_new: bool, is_sure: bool, written: Mark | None
) -> None:
    assert fence.claimed(found, Claim(MINE, is_new, is_sure)) == written


@pytest.mark.parametrize(
    ("found", "is_written"),
    [
        (MINE, True),
        (None, False),
        (MINE._replace(ended=True), False),
        (MINE._replace(reserved=True), False),  # it never began
        (MINE._replace(owner="other"), False),
        (MINE._replace(attempt=4), False),
    ],
)
def test_only_its_owner_says_that_an_attempt_has_ended(
    found: Mark | None, is_written: bool
) -> None:
    written = MINE._replace(ended=True) if is_written else None
    assert fence.released(found, "me", 3) == written
    assert written is None or Mark.from_json(written._asdict()) == written


def test_where_the_object_is() -> None:
    assert fence.object_of("gs://lab/a/b/", "digits") == ("lab", "a/b/.tpu-fleet-attempt.digits")
    assert fence.object_of("gs://lab", "digits.pair") == ("lab", ".tpu-fleet-attempt.digits.pair")
    assert fence.object_of("/mnt/a", "digits") is None


@pytest.mark.parametrize(
    ("said", "taken"),
    [("attempt-7", "attempt-7"), ("", ""), (None, None), ("../x", None), ("attempt-07", None)],
)
def test_a_folder_to_restore_from_is_one_of_an_attempt(said: str, taken: str | None) -> None:
    found = Mark.from_json({**OLD._asdict(), "restore": said})
    assert found is not None
    assert found.restore == taken
