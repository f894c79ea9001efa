"""No two slices write one checkpoint folder, as long as none is slower than is allowed for.

Gangs that cannot hear each other share a file or an object. Hypothesis lets them come, take over,
crash, start late and look late; the decisions are the agent's own. What is allowed for: a look
within three of its intervals (of a file; one and a half of an object), and five seconds from a
launch's look to its mark, or to its program.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from run_agent.decide import fence
from run_agent.decide.fence import Claim, Mark

EVERY, LOOK_AGAIN, LATEST_LOOK, LATEST_MARK = 5.0, 10.0, 15.0, 5.0


@dataclass
class Slice:
    """One gang on its slice."""

    owner: str
    patience: fence.Patience
    attempt: int = 0
    claimed: bool = False
    is_sure: bool = False
    ended: bool = False
    seen: Mark | None = None
    seen_at: float | None = None
    launching_since: float | None = None
    alive: bool = False
    looked: float = 0.0


class Folder(RuleBasedStateMachine):
    """One checkpoint folder, and those who come to it."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.file: Mark | None = None
        self.slices = [self.made("0")]
        self.settle(self.slices[0])

    def made(self, owner: str) -> Slice:
        return Slice(owner, fence.Patience(fence.LOOKS_UNTIL_SURE * EVERY))

    def one(self, data: st.DataObject) -> Slice:
        return data.draw(st.sampled_from(self.slices))

    def prepare(self, one: Slice) -> None:
        """Do what worker 0 does while its gang gathers."""
        if one.alive or one.ended or one.launching_since is not None:
            return
        if one.seen_at is None or self.now - one.seen_at > LOOK_AGAIN:
            found = self.file
            if found is not None and found.owner != one.owner and not one.claimed:
                found = self.file = fence.heir(found, Mark(one.attempt + 1, one.owner))
            one.seen, one.seen_at = found, self.now
            one.claimed = one.claimed or (found is not None and found.owner == one.owner)
        if fence.judge(one.seen, one.owner, one.claimed) == fence.ELSEWHERE:
            one.ended = True
        elif one.seen is None or one.patience.left(one.seen, self.now) <= 0:
            one.attempt = max(one.attempt, fence.floor(one.seen)) + 1
            one.claimed = True
            self.look_at_the_launch(one)

    def look_at_the_launch(self, one: Slice) -> None:
        one.seen_at = None
        if not fence.shuts_out(self.file, one.owner, one.attempt):
            one.launching_since = self.now

    def launch(self, one: Slice) -> None:
        """Put the mark there and start: a moment after the look, in which others may come."""
        if one.launching_since is not None:
            self.file = Mark(one.attempt, one.owner)
            one.alive, one.looked, one.launching_since = True, self.now, None

    def look(self, one: Slice) -> None:
        """Do what the guard beside the program does."""
        one.looked = self.now
        if one.alive and fence.shuts_out(self.file, one.owner, one.attempt):
            one.alive = False

    def settle(self, one: Slice) -> None:
        self.prepare(one)
        self.launch(one)

    @precondition(lambda self: len(self.slices) < 4)
    @rule()
    def a_slice_is_made_anew(self) -> None:
        self.slices.append(self.made(str(len(self.slices))))

    @rule(data=st.data())
    def it_prepares(self, data: st.DataObject) -> None:
        self.prepare(self.one(data))

    @rule(data=st.data())
    def it_launches(self, data: st.DataObject) -> None:
        self.launch(self.one(data))

    @rule(data=st.data())
    def its_program_ends(self, data: st.DataObject) -> None:
        self.one(data).alive = False

    @rule(data=st.data())
    def its_guard_looks(self, data: st.DataObject) -> None:
        self.look(self.one(data))

    @rule(seconds=st.sampled_from([1, 4, 9, 20, 40]), prepares=st.booleans())
    def time_passes(self, seconds: int, prepares: bool) -> None:
        for _ in range(seconds):
            self.now += 1.0
            for one in self.slices:
                if one.launching_since is not None and self.now - one.launching_since > LATEST_MARK:
                    self.launch(one)
                if self.now - one.looked > LATEST_LOOK:
                    self.look(one)
                if prepares:
                    self.prepare(one)

    @invariant()
    def one_writer(self) -> None:
        alive = [one.owner for one in getattr(self, "slices", []) if one.alive]
        assert len(alive) <= 1, alive

    def teardown(self) -> None:
        """In the end one of them has the folder, unless none wanted it."""
        if not hasattr(self, "slices"):
            return
        for _ in range(12):
            self.time_passes(20, True)
            self.one_writer()
        assert sum(one.alive for one in self.slices) == 1


class Bucket(Folder):
    """The same with an object, which is written before an attempt and read when it begins."""

    def made(self, owner: str) -> Slice:
        return Slice(owner, fence.Patience(fence.LOOKS_UNTIL_SURE_OF_BUCKET * LOOK_AGAIN))

    def prepare(self, one: Slice) -> None:
        if one.alive or one.ended or one.launching_since is not None:
            return
        if one.seen_at is None or self.now - one.seen_at > LOOK_AGAIN:
            wanted = Claim(Mark(one.attempt + 1, one.owner), not one.claimed, one.is_sure)
            self.file = fence.claimed(self.file, wanted) or self.file
            one.seen, one.seen_at = self.file, self.now
            one.claimed = one.claimed or (self.file is not None and self.file.owner == one.owner)
        if fence.judge(one.seen, one.owner, one.claimed) == fence.ELSEWHERE:
            one.ended = True
        elif one.seen is None or one.seen.owner != one.owner or one.seen.attempt <= one.attempt:
            one.seen_at = None
        elif one.patience.left(one.seen, self.now) <= 0:
            if one.seen.reserved:
                one.is_sure, one.seen_at = True, None
                return
            one.attempt, one.is_sure = one.seen.attempt, False
            self.look_at_the_launch(one)

    def look_at_the_launch(self, one: Slice) -> None:
        one.seen_at = None
        if self.file is not None and (self.file.attempt, self.file.owner) == (
            one.attempt, one.owner,
        ):  # fmt: skip
            one.launching_since = self.now

    def launch(self, one: Slice) -> None:
        """Start: a moment after the look, in which others may come."""
        if one.launching_since is not None:
            one.alive, one.looked, one.launching_since = True, self.now, None

    @rule(data=st.data())
    def it_is_told_to_stop(self, data: st.DataObject) -> None:
        one = self.one(data)
        if one.launching_since is None:
            one.alive = False
            self.file = fence.released(self.file, one.owner, one.attempt) or self.file

    @rule(data=st.data())
    def its_object_is_deleted_before_it_begins_again(self, data: st.DataObject) -> None:
        if not any(one.alive or one.launching_since is not None for one in self.slices):
            self.file = None


TestFolder = Folder.TestCase
TestFolder.settings = settings(max_examples=100, stateful_step_count=40)
TestBucket = Bucket.TestCase
TestBucket.settings = settings(max_examples=100, stateful_step_count=40)
