"""What the queue agents of a slice send each other."""

from __future__ import annotations

from dataclasses import dataclass, replace

# Phases of an order.
HOLD = "hold"
"""Worker 0 does not know yet whether a run is its own: all stays as it is, and nothing starts."""
NONE, RUN, STOP = "none", "run", "stop"
PHASES = (HOLD, NONE, RUN, STOP)
# States of a run on a worker.
NOTHING, INSTALLED, STARTED = "nothing", "installed", "started"
STATES = (NOTHING, INSTALLED, STARTED)
# States of an environment on a worker.
NOT_ASKED, BUILDING, BUILT, NOT_BUILT = "", "building", "built", "not built"
BUILDS = (NOT_ASKED, BUILDING, BUILT, NOT_BUILT)


@dataclass(frozen=True)
class Order:
    """What worker 0 wants of all workers."""

    phase: str
    run: str = ""
    definition: str = ""
    """The SHA-256 of its text, by which each worker reads and verifies it."""
    claim: int = 0
    """`claims` of its state: each time that a slice takes a run, it is another one."""
    failures: int = 0
    """Of its program, when the slice took it."""
    venv: str = ""
    """An environment that all workers build while they have no run, because the next needs it."""


@dataclass(frozen=True)
class Report:
    """What one worker has."""

    worker: int
    run: str = ""
    claim: int = 0
    state: str = NOTHING
    problem: str = ""
    """Why what was ordered last cannot be done."""
    final: bool = False
    """Whether no slice could do it."""
    tried: str = ""
    """The run that the problem is about."""
    tried_claim: int = 0
    busy: str = ""
    """What else has the chips."""
    venv: str = ""
    """The environment that worker 0 wants built."""
    build: str = NOT_ASKED
    trouble: str = ""
    """Why it is not built."""

    def about(self, run: str, claim: int) -> Report:
        """Return it without a problem that is about another run, or an earlier claim."""
        is_so = (self.tried, self.tried_claim) == (run, claim)
        return self if is_so else replace(self, problem="", final=False)

    def is_of(self, order: Order) -> bool:
        """Return whether it has the run of an order."""
        return (self.run, self.claim) == (order.run, order.claim)
