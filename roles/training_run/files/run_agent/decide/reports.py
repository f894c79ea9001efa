"""What the reports of a gang's workers mean."""

from __future__ import annotations

from . import chips
from .gang_state import (
    CHIPS,
    FENCED,
    INFRASTRUCTURE_CAUSES,
    OBSTRUCTED,
    Gang,
    Policy,
    Report,
    Reports,
)
from .run_states import RUNNING

Seen = tuple[Report, float] | None


def absent(reports: Reports, policy: Policy) -> list[str]:
    """Say who cannot take part in a next attempt."""
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


def unaware(gang: Gang, reports: Reports, policy: Policy) -> list[str]:
    """Say who may still act on an older order than the gang's present one.

    A worker with an order to start that has not started looks idle. Only one whose report says
    that it has the newer order in hand will not start any more, and has looked whether it is ready.
    """
    workers = range(policy.workers)
    late = [worker for worker in workers if reports[worker][0].heard != gang.token]
    return [f"worker {worker} has not answered yet" for worker in late]


def testing(reports: Reports, policy: Policy) -> list[str]:
    """Say which workers still try the ports of the others, which takes a few seconds at most."""
    workers = [worker for worker in range(policy.workers) if reports[worker][0].testing]
    return [f"worker {worker} tests the ports of the others" for worker in workers]


def unequal(reports: Reports, policy: Policy) -> list[str]:
    """Say who has another version of the code or the environment than worker 0."""
    usual = reports[0][0].builds
    found = []
    for worker in range(1, policy.workers):
        for what, version in sorted(reports[worker][0].builds.items()):
            expected = usual.get(what, "")
            if version and expected and version != expected:
                text = f"worker {worker} has {what} {version[:12]}, worker 0 has {expected[:12]}"
                found.append(f"{text}: apply the fleet file again")
    return found


def trouble(worker: int, gang: Gang, reports: Reports, policy: Policy) -> list[str]:
    """Say what is the matter with a worker that is no failure of the program."""
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
    if chips_failed(gang, report) and len(gang.bad_chips.get(str(worker), [])) >= chips.MOST:
        return []  # so often that it ends the run: its program may be the cause
    if report.last_started == gang.attempt and report.cause in INFRASTRUCTURE_CAUSES:
        why = f": {report.tail[-1]}" if report.cause in OBSTRUCTED and report.tail else ""
        return [f"worker {worker}: {report.cause}{why}"]
    return []


def chips_failed(gang: Gang, report: Report) -> bool:
    """Say whether a worker's program ended because its chips did not initialise."""
    return report.last_started == gang.attempt and report.cause == CHIPS


def shut(gang: Gang, reports: Reports) -> list[int]:
    """Return the worker that alone has not opened its chips, in a start that is late."""
    opened = {
        worker: report.opened
        for worker, (report, _age) in reports.items()
        if report.last_started == gang.attempt
    }
    return [worker for worker in sorted(opened) if chips.shut(opened, worker)]


def stepped(gang: Gang, reports: Reports) -> bool:
    """Say whether a program of the gang's attempt has come to a step."""
    return any(
        report.stepped and report.last_started == gang.attempt for report, _age in reports.values()
    )


def obstructed(gang: Gang, reports: Reports) -> bool:
    """Say whether something on a machine prevented the attempt."""
    return any(
        report.last_started == gang.attempt and report.cause in OBSTRUCTED
        for report, _age in reports.values()
    )


def fenced(gang: Gang, reports: Reports) -> bool:
    """Say whether another gang has taken the checkpoint folder over from this attempt."""
    return any(
        report.last_started == gang.attempt and report.cause == FENCED
        for report, _age in reports.values()
    )


def done(gang: Gang, seen: Seen) -> bool:
    """Say whether a worker's program has ended well."""
    if seen is None:
        return False
    report = seen[0]
    ended = report.last_started == gang.attempt and report.program == "exited"
    return ended and report.exit_code == 0 and not report.cause


def all_ended(gang: Gang, reports: Reports, policy: Policy) -> bool:
    """Say whether the gang's last attempt is over on every worker, and starts on none again.

    That needs each worker's own word that it began the attempt and saw its end: a worker without
    memory, or with an order in hand on which it did not act yet, looks idle as well.
    """
    if gang.phase == RUNNING or not gang.attempt:
        return False
    return all(
        worker in reports
        and reports[worker][0].last_started == gang.attempt
        and reports[worker][0].program == "exited"
        for worker in range(policy.workers)
    )


def crash(gang: Gang, seen: Seen) -> list[str]:
    """Say how a worker's program failed."""
    if seen is None:
        return []
    report = seen[0]
    if report.last_started != gang.attempt or report.program != "exited" or report.exit_code == 0:
        return []
    if report.cause == CHIPS and report.tail:
        return [f"worker {report.worker}: {CHIPS}: {report.tail[-1]}"]
    if report.signal:
        return [f"worker {report.worker}: killed by signal {report.signal}"]
    if report.exit_code is None:
        return [f"worker {report.worker}: the program vanished"]
    return [f"worker {report.worker}: exit code {report.exit_code}"]


def silence(gang: Gang, reports: Reports, policy: Policy) -> float:
    """Return for how long no program of the gang that is not done gave a sign of life.

    Often one worker alone writes the log and the checkpoints, so the liveliest speaks for all.
    """
    quiet = [
        report.quiet + age if report.program == "running" else 0.0
        for report, age in reports.values()
        if not done(gang, (report, age))
    ]
    return min(quiet) if quiet and len(reports) == policy.workers else 0.0
