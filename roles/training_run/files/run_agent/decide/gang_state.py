"""What is said and kept in a gang: the workers' reports, the leader's state, the run's rules."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .run_states import FAILED, RUNNING, SUCCEEDED, TOLD_TO_STOP
from .values import fields_of

GATHERING, STOPPING = "gathering", "stopping"
PHASES = (GATHERING, RUNNING, STOPPING, SUCCEEDED, FAILED)
LEADER_LOST, REBOOTED = "lost the leader", "rebooted"
HUNG, FENCED, ADRIFT = "hung", "fenced", "lost its terminal"
NOT_STARTED, PORT_TAKEN = "could not be started", "its port was taken"
CHIPS = "its chips did not initialise"
INFRASTRUCTURE_CAUSES = (
    TOLD_TO_STOP,
    LEADER_LOST,
    REBOOTED,
    FENCED,
    ADRIFT,
    NOT_STARTED,
    PORT_TAKEN,
    CHIPS,
)
# What another process on the machine can bring about again at once: such an attempt is no failure
# of the program, and the next one comes later each time.
OBSTRUCTED = (NOT_STARTED, PORT_TAKEN, CHIPS)


@dataclass(frozen=True)
class Report:
    """What one worker says about itself with every heartbeat."""

    worker: int
    boot_id: str
    definition: str
    last_started: int = 0
    program: str = "none"  # none | running | exited, of attempt `last_started`
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""  # why it ended, when the agent ended it
    blocked: str = ""
    leaving: bool = False
    sent: float = 0.0  # by the clock of its boot: a report that comes late is passed over
    heard: str = ""  # the last order that it has in hand
    quiet: float = 0.0  # seconds without a sign of life of its program
    tail: list[str] = field(default_factory=list)  # the last lines of a program that failed
    builds: dict[str, str] = field(default_factory=dict)  # versions of its code and environment
    floor: int = 0  # the last attempt that the checkpoint folder knows of
    run_id: str = ""  # and the run's name in it
    elsewhere: str = ""  # the owner that goes on with the run instead
    named: str = ""  # the gang that the fence was seen to name
    checkpoint: str = ""  # why the programs should save what they have
    queue: dict[str, Any] | None = None  # the run that has the TPU before us
    no_turn: bool = False  # the TPU is not ours yet
    testing: bool = False  # its first attempt waits until the ports of the others were tried
    stepped: bool = False  # whether the program of its last attempt has come to a step
    opened: bool | None = None  # whether a program that is late has opened its chips
    pace: float = 0.0  # seconds of a step of its program; 0 while not known
    chip_error: str = ""  # of a core of its chips, by its runtime
    losses: list[list[Any]] = field(default_factory=list)  # [step, loss] of its last steps
    unreached: list[list[Any]] = field(default_factory=list)  # [worker, port, result, what for]

    @property
    def idle(self) -> bool:
        """Say whether nothing of the run is alive there."""
        return self.program != "running"


Reports = Mapping[int, tuple[Report, float]]  # each with its age in seconds


@dataclass(frozen=True)
class Gang:
    """What the leader knows and keeps over its own reboots."""

    definition: str
    run_id: str
    phase: str = GATHERING
    attempt: int = 0
    infrastructure: bool = False
    reason: str = ""
    failures: list[float] = field(default_factory=list)
    restarts: int = 0
    obstructed: int = 0  # attempts in a row that something on a machine prevented
    not_before: float = 0.0
    boots: dict[str, str] = field(default_factory=dict)
    owner: str = field(default_factory=lambda: uuid.uuid4().hex[:12])  # this gang, no other
    claimed: bool = False  # whether its name was ever on the checkpoint folder
    hung: float = 0.0  # seconds of silence that ended the attempt
    final: bool = False  # whether this failure is not to be tried again
    failed_worker: int | None = None
    tail: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # why this attempt was asked to save
    builds: dict[str, str] = field(default_factory=dict)  # with which the attempt began
    fenced: bool = False  # whether another gang has the checkpoints: nothing may be saved any more
    bad_chips: dict[str, list[float]] = field(default_factory=dict)  # starts that they failed
    chips_said: dict[str, str] = field(default_factory=dict)  # what was said of them last
    yields: bool = False  # of several slices, one is taken: none is kept from others meanwhile

    @property
    def token(self) -> str:
        """Return the name of the present order."""
        return f"{self.owner} {self.phase} {self.attempt}{' yields' if self.yields else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return the form that is kept and sent."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Gang:
        """Read what to_json wrote."""
        return cls(**fields_of(cls, data))


@dataclass(frozen=True)
class Policy:
    """The run's rules for the gang."""

    definition: str
    workers: int
    retries: int
    fail_fast_seconds: float
    lost_seconds: float
    restart_delay: float = 2.0
    restart_delay_max: float = 60.0
    hang_seconds: float = 0.0
    no_retry_exit_codes: tuple[int, ...] = ()

    @property
    def failure_window(self) -> float:
        """Return within which time failures are counted together.

        A hang is not seen before hang_seconds are over, so that much is added for each.
        """
        return self.fail_fast_seconds + (self.retries + 1) * self.hang_seconds
