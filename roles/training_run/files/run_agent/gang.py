"""What the gang does next: a pure state machine that only the leader runs.

gathering --all there, idle, device free--> running --all exit 0--> succeeded
    ^                                          |
    |                              one dies, leaves, reboots, is lost
    |                                          v
    +------all back and idle------------- stopping --too many program failures--> failed
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, List, Mapping, Optional, Tuple

GATHERING, RUNNING, STOPPING = "gathering", "running", "stopping"
SUCCEEDED, FAILED = "succeeded", "failed"
TERMINAL = (SUCCEEDED, FAILED)
TOLD_TO_STOP, LEADER_LOST, REBOOTED = "told to stop", "lost the leader", "rebooted"
INFRASTRUCTURE_CAUSES = (TOLD_TO_STOP, LEADER_LOST, REBOOTED)


@dataclass(frozen=True)
class Report:
    """What one worker says about itself with every heartbeat."""

    worker: int
    boot_id: str
    definition: str
    last_started: int = 0
    program: str = "none"  # none | running | exited, of attempt `last_started`
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    cause: str = ""  # why it ended, when the agent ended it
    blocked: str = ""
    leaving: bool = False

    @property
    def idle(self) -> bool:
        """Say whether nothing of the run is alive there."""
        return self.program != "running"


@dataclass(frozen=True)
class Gang:
    """What the leader knows and keeps over its own reboots."""

    definition: str
    run_id: str
    phase: str = GATHERING
    attempt: int = 0
    infrastructure: bool = False
    reason: str = ""
    failures: List[float] = field(default_factory=list)
    restarts: int = 0
    not_before: float = 0.0
    boots: Dict[str, str] = field(default_factory=dict)

    def to_json(self) -> Dict[str, Any]:
        """Return the form that is kept and sent."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Gang:
        """Read what to_json wrote; keys of other versions are passed over."""
        names = cls.__dataclass_fields__
        return cls(**{key: value for key, value in data.items() if key in names})


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


def redefine(gang: Gang, definition: str, new_run_id: str) -> Gang:
    """Take over a changed definition: whatever runs must stop, what had ended begins again."""
    if gang.definition == definition:
        return gang
    ended_well = gang.phase == SUCCEEDED
    return replace(
        gang,
        definition=definition,
        run_id=new_run_id if ended_well else gang.run_id,
        phase=STOPPING,
        infrastructure=True,
        reason="the definition changed",
        failures=[],
        not_before=0.0,
    )


def again(gang: Gang) -> Gang:
    """Let a run that had ended be tried once more, from its checkpoint."""
    if gang.phase not in TERMINAL:
        return gang
    return replace(gang, phase=GATHERING, reason="asked to try again", failures=[], not_before=0.0)


def decide(
    gang: Gang, reports: Mapping[int, Tuple[Report, float]], now: float, policy: Policy
) -> Gang:
    """Return the gang's next state from each worker's last report and its age in seconds."""
    if gang.phase == RUNNING:
        return _while_running(gang, reports, policy)
    if gang.phase == STOPPING:
        return _while_stopping(gang, reports, now, policy)
    if gang.phase == GATHERING:
        return _while_gathering(gang, reports, now, policy)
    return gang


def _while_running(gang: Gang, reports: Mapping[int, Tuple[Report, float]], policy: Policy) -> Gang:
    done = [worker for worker in range(policy.workers) if _done(gang, reports.get(worker))]
    if len(done) == policy.workers:
        return replace(gang, phase=SUCCEEDED, reason="", infrastructure=False)
    troubles = [
        t
        for w in range(policy.workers)
        if w not in done
        for t in _trouble(w, gang, reports, policy)
    ]
    if troubles:
        return replace(gang, phase=STOPPING, infrastructure=True, reason=troubles[0])
    crashes = [c for w in range(policy.workers) for c in _crash(gang, reports.get(w))]
    if crashes:
        return replace(gang, phase=STOPPING, infrastructure=False, reason=crashes[0])
    return gang


def _while_stopping(
    gang: Gang, reports: Mapping[int, Tuple[Report, float]], now: float, policy: Policy
) -> Gang:
    # A peer's program often dies a moment before its cause is seen: a reboot that shows only now
    # still makes the whole stop one of the infrastructure.
    if not gang.infrastructure:
        late = [t for w in range(policy.workers) for t in _trouble(w, gang, reports, policy)]
        if late:
            gang = replace(gang, infrastructure=True, reason=late[0])
    if _absent(reports, policy) or not all(report.idle for report, _seen in reports.values()):
        return gang
    if gang.infrastructure:
        return replace(gang, phase=GATHERING, restarts=gang.restarts + 1)
    failures = [t for t in gang.failures if 0 <= now - t <= policy.fail_fast_seconds] + [now]
    if len(failures) > policy.retries:
        text = (
            f"{len(failures)} failures in {policy.fail_fast_seconds:.0f} s, the last: {gang.reason}"
        )
        return replace(gang, phase=FAILED, failures=failures, reason=text)
    delay = min(policy.restart_delay * 2 ** (len(failures) - 1), policy.restart_delay_max)
    return replace(
        gang,
        phase=GATHERING,
        failures=failures,
        restarts=gang.restarts + 1,
        not_before=now + delay,
    )


def _while_gathering(
    gang: Gang, reports: Mapping[int, Tuple[Report, float]], now: float, policy: Policy
) -> Gang:
    if _absent(reports, policy):
        return gang
    latest = [reports[worker][0] for worker in range(policy.workers)]
    if any(report.blocked or not report.idle for report in latest):
        return gang
    # A clock that jumped back must not hold a run for ever.
    if 0 < gang.not_before - now <= policy.restart_delay_max:
        return gang
    return replace(
        gang,
        phase=RUNNING,
        # A leader that lost its disk must not give a number out twice.
        attempt=max([gang.attempt] + [report.last_started for report in latest]) + 1,
        infrastructure=False,
        reason="",
        boots={str(report.worker): report.boot_id for report in latest},
    )


def waiting_for(reports: Mapping[int, Tuple[Report, float]], policy: Policy) -> str:
    """Say in words what a gang that does not run waits for."""
    absent = _absent(reports, policy)
    if absent:
        return "; ".join(absent)
    parts = []
    for worker in range(policy.workers):
        report = reports[worker][0]
        if report.blocked:
            parts.append(f"worker {worker}: {report.blocked}")
        elif not report.idle:
            parts.append(f"worker {worker} is still stopping")
    return "; ".join(parts)


def _absent(reports: Mapping[int, Tuple[Report, float]], policy: Policy) -> List[str]:
    found = []
    for worker in range(policy.workers):
        seen = reports.get(worker)
        if seen is None or seen[1] > policy.lost_seconds:
            found.append(f"worker {worker} is not there")
        elif seen[0].leaving:
            found.append(f"worker {worker} was told to stop")
        elif seen[0].definition != policy.definition:
            found.append(f"worker {worker} has another definition of the run")
    return found


def _trouble(
    worker: int, gang: Gang, reports: Mapping[int, Tuple[Report, float]], policy: Policy
) -> List[str]:
    seen = reports.get(worker)
    if seen is None or seen[1] > policy.lost_seconds:
        return [f"worker {worker} is lost"]
    report = seen[0]
    if report.leaving:
        return [f"worker {worker} was told to stop"]
    if report.definition != policy.definition:
        return [f"worker {worker} has another definition of the run"]
    if report.boot_id != gang.boots.get(str(worker), report.boot_id):
        return [f"worker {worker} rebooted"]
    if report.last_started == gang.attempt and report.cause in INFRASTRUCTURE_CAUSES:
        return [f"worker {worker}: {report.cause}"]
    return []


def _done(gang: Gang, seen: Optional[Tuple[Report, float]]) -> bool:
    if seen is None:
        return False
    report = seen[0]
    ended = report.last_started == gang.attempt and report.program == "exited"
    return ended and report.exit_code == 0 and not report.cause


def _crash(gang: Gang, seen: Optional[Tuple[Report, float]]) -> List[str]:
    if seen is None:
        return []
    report = seen[0]
    if report.last_started != gang.attempt or report.program != "exited" or report.exit_code == 0:
        return []
    if report.signal:
        return [f"worker {report.worker}: killed by signal {report.signal}"]
    if report.exit_code is None:
        return [f"worker {report.worker}: the program vanished"]
    return [f"worker {report.worker}: exit code {report.exit_code}"]
