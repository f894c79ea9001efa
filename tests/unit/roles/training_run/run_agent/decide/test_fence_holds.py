"""No two slices write one checkpoint folder, as long as none is slower than is allowed for.

Gangs that cannot hear each other share a file. Hypothesis lets them come, take over, crash, start
late and look late; the decisions are the agent's own. What is allowed for: a look within three of
its intervals, and five seconds from a launch's look at the file to its mark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from run_agent.decide import fence
from run_agent.decide.fence import Mark

EVERY, LOOK_AGAIN, LATEST_LOOK, LATEST_MARK = 5.0, 10.0, 15.0, 5.0


@dataclass
class Slice:
    """One gang on its slice."""

    owner: str
    patience: fence.Patience = field(default_factory=lambda: fence.Patience(EVERY))
    attempt: int = 0
    claimed: bool = False
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
        self.slices = [Slice("0")]
        self.settle(self.slices[0])

    def one(self, data: st.DataObject) -> Slice:
        return data.draw(st.sampled_from(self.slices))

    def prepare(self, one: Slice) -> None:
        """Do what worker 0 does while its gang gathers."""
        if one.alive or one.ended or one.launching_since is not None:
            return
        if one.seen_at is None or self.now - one.seen_at > LOOK_AGAIN:
            found = self.file
            if found is not None and found.owner != one.owner and not one.claimed:
                found = self.file = fence.heir(found, one.owner, "", 0.0)
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
        self.slices.append(Slice(str(len(self.slices))))

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


TestFolder = Folder.TestCase
TestFolder.settings = settings(max_examples=100, stateful_step_count=40)
