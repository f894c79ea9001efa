"""What the gang does next: a pure state machine that only the leader runs.

gathering --all there, idle, ready--> running --all exit 0--> succeeded
    ^                                    |
    |                    one dies, leaves, reboots, is lost; all hang
    |                                    v
    +------all back and idle-------- stopping --too many program failures--> failed

No attempt begins while another may be alive. The leader does not count seconds for that: it goes
on when every worker has said itself that nothing runs there and that it knows of the stop. A
worker that cannot be reached ends its program itself, and the others wait for its report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from . import chips
from .durations import long
from .gang_state import GATHERING, STOPPING, Gang, Policy, Reports
from .reports import (
    absent,
    chips_failed,
    crash,
    done,
    fenced,
    obstructed,
    shut,
    silence,
    stepped,
    testing,
    trouble,
    unaware,
    unequal,
)
from .run_states import ENDED, FAILED, RUNNING, SUCCEEDED


def redefine(gang: Gang, definition: str, new_run_id: str, failures: Sequence[float] = ()) -> Gang:
    """Take over a changed definition: whatever runs must stop, what had ended begins again.

    `failures` are the times of those that count from the beginning.
    """
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
        failures=[*failures],
        obstructed=0,
        not_before=0.0,
        hung=0.0,
        final=False,
    )


def again(gang: Gang, owner: str) -> Gang:
    """Let a run that had ended be tried once more, from its checkpoint; also if others have it."""
    if gang.phase not in ENDED:
        return gang
    return replace(
        gang,
        phase=GATHERING,
        reason="asked to try again",
        failures=[],
        bad_chips={},
        chips_said={},
        obstructed=0,
        not_before=0.0,
        final=False,
        owner=owner,
        claimed=False,
    )


def decide(gang: Gang, reports: Reports, now: float, policy: Policy) -> Gang:
    """Return the gang's next state from each worker's last report and its age in seconds."""
    if gang.phase == RUNNING:
        return _while_running(gang, reports, policy)
    if gang.phase == STOPPING:
        return _while_stopping(gang, reports, now, policy)
    if gang.phase == GATHERING:
        return _while_gathering(gang, reports, now, policy)
    if gang.phase == FAILED:
        return _while_failed(gang, reports, policy)
    return gang


def _while_failed(gang: Gang, reports: Reports, policy: Policy) -> Gang:
    """Try again with another environment, once all workers have it: a package may be there now."""
    if absent(reports, policy) or unequal(reports, policy):
        return gang
    builds = reports[0][0].builds
    before, now = (found.get("environment", "") for found in (gang.builds, builds))
    if not before or not now or before == now:
        return gang
    return replace(
        gang,
        phase=GATHERING,
        reason="its environment changed",
        failures=[],
        not_before=0.0,
        final=False,
        builds=builds,
    )


def _while_running(gang: Gang, reports: Reports, policy: Policy) -> Gang:
    finished = [worker for worker in range(policy.workers) if done(gang, reports.get(worker))]
    if len(finished) == policy.workers:
        return replace(gang, phase=SUCCEEDED, reason="", infrastructure=False)
    troubles = [
        text
        for worker in range(policy.workers)
        if worker not in finished
        for text in trouble(worker, gang, reports, policy)
    ]
    if troubles:
        return _interrupted(gang, reports, troubles[0])
    for worker in range(policy.workers):
        for text in crash(gang, reports.get(worker)):
            return _failed_once(gang, reports, worker, text, policy)
    quiet = silence(gang, reports, policy)
    if policy.hang_seconds and quiet >= policy.hang_seconds:
        text = f"no output, no newer checkpoint and no progress for {long(quiet)}"
        return replace(
            gang,
            phase=STOPPING,
            infrastructure=False,
            obstructed=0,
            reason=f"hung: {text}",
            hung=quiet,
            tail=[],
        )
    if gang.bad_chips and stepped(gang, reports):
        gang = replace(gang, bad_chips={}, chips_said={})
    return _ask_to_save(gang, reports)


def _with_chips(gang: Gang, reports: Reports, now: float) -> Gang:
    """Count at which workers the attempt that has ended failed for their chips."""
    if stepped(gang, reports):
        return replace(gang, bad_chips={}, chips_said={})
    said = {
        report.worker: report.tail[-1]
        for report, _age in reports.values()
        if chips_failed(gang, report) and report.tail
    }
    said |= dict.fromkeys(shut(gang, reports), "its program did not open its chips")
    counted = chips.counted(gang.bad_chips, sorted(said), now)
    words = {**gang.chips_said, **{str(worker): text for worker, text in said.items()}}
    known = {worker: text for worker, text in words.items() if worker in counted}
    return replace(gang, bad_chips=counted, chips_said=known)


def _interrupted(gang: Gang, reports: Reports, reason: str) -> Gang:
    number = gang.obstructed + 1 if obstructed(gang, reports) else 0
    return replace(
        gang,
        phase=STOPPING,
        infrastructure=True,
        reason=reason,
        obstructed=number,
        fenced=fenced(gang, reports),
    )


def _failed_once(gang: Gang, reports: Reports, worker: int, text: str, policy: Policy) -> Gang:
    report = reports[worker][0]
    final = report.exit_code in policy.no_retry_exit_codes
    return replace(
        gang,
        phase=STOPPING,
        infrastructure=False,
        obstructed=0,
        reason=f"{text}, which is not tried again" if final else text,
        final=final,
        failed_worker=worker,
        tail=report.tail,
    )


def _ask_to_save(gang: Gang, reports: Reports) -> Gang:
    """Pass a reason to save on to all, once: a checkpoint is often written by all together."""
    reasons = {report.checkpoint for report, _age in reports.values() if report.checkpoint}
    new = sorted(reasons - set(gang.asked))
    return replace(gang, asked=[*gang.asked, *new]) if new else gang


def _while_stopping(gang: Gang, reports: Reports, now: float, policy: Policy) -> Gang:
    # A peer's program often dies a moment before its cause is seen: a reboot that shows only now
    # still makes the whole stop one of the infrastructure.
    if not gang.infrastructure:
        late = [t for w in range(policy.workers) for t in trouble(w, gang, reports, policy)]
        if late:
            gang = _interrupted(gang, reports, late[0])
    if absent(reports, policy) or not all(report.idle for report, _age in reports.values()):
        return gang
    if unaware(gang, reports, policy):
        return gang
    gang = _with_chips(replace(gang, hung=0.0), reports, now)
    if gang.infrastructure:
        pause = _pause(gang.obstructed, policy)
        return replace(
            gang,
            phase=GATHERING,
            restarts=gang.restarts + 1,
            final=False,
            not_before=now + pause if pause else gang.not_before,
        )
    if gang.final:
        return replace(gang, phase=FAILED)
    window = policy.failure_window
    failures = [*failures_in(gang, now, policy), now]
    if len(failures) > policy.retries:
        count = len(failures)
        many = "1 failure" if count == 1 else f"{count} failures"
        last = "" if count == 1 else ", the last"
        text = f"{many} in {long(window)}{last}: {gang.reason}"
        return replace(gang, phase=FAILED, failures=failures, reason=text)
    return replace(
        gang,
        phase=GATHERING,
        failures=failures,
        restarts=gang.restarts + 1,
        not_before=now + _pause(len(failures), policy),
    )


def failures_in(gang: Gang, now: float, policy: Policy) -> list[float]:
    """Return the times of the failures that still count."""
    return [at for at in gang.failures if 0 <= now - at <= policy.failure_window]


def _pause(times: int, policy: Policy) -> float:
    """Return the seconds before the next attempt, after so many that ended in the same way."""
    if not times:
        return 0.0
    return min(policy.restart_delay * 2.0 ** min(times - 1, 30), policy.restart_delay_max)


def _while_gathering(gang: Gang, reports: Reports, now: float, policy: Policy) -> Gang:
    # Kept over a reboot: of several heirs the last one goes on, and none comes a second time.
    if any(report.named == gang.owner for report, _age in reports.values()):
        gang = replace(gang, claimed=True)
    for report, _age in reports.values():
        # What was said before a person took the run back counts no more.
        if report.elsewhere and report.heard == gang.token:
            return replace(gang, phase=FAILED, reason=report.elsewhere, tail=[])
    if absent(reports, policy) or _not_ready(gang, reports, policy):
        return gang
    # Whatever the clock says, no pause is longer than the longest.
    if 0 < gang.not_before - now <= policy.restart_delay_max:
        return gang
    latest = [reports[worker][0] for worker in range(policy.workers)]
    # A leader that lost its disk must not give a number out twice, nor a recreated slice.
    known = [number for report in latest for number in (report.last_started, report.floor)]
    first = gang.attempt == 0
    return replace(
        gang,
        phase=RUNNING,
        attempt=max([gang.attempt, *known]) + 1,
        run_id=(latest[0].run_id if first else "") or gang.run_id,
        infrastructure=False,
        fenced=False,
        reason="",
        boots={str(report.worker): report.boot_id for report in latest},
        claimed=True,
        failed_worker=None,
        tail=[],
        asked=[],
        builds=latest[0].builds,
    )


def _not_ready(gang: Gang, reports: Reports, policy: Policy) -> list[str]:
    parts = []
    for worker in range(policy.workers):
        report = reports[worker][0]
        if not report.idle:
            parts.append(f"worker {worker} is still stopping")
        elif report.queue:
            first = "run {behind} of {user}".format(**report.queue)
            parts.append(f"the TPU is taken: {first} is first")
        elif report.blocked:
            parts.append(f"worker {worker}: {report.blocked}")
    if not parts and any(reports[worker][0].no_turn for worker in range(policy.workers)):
        parts = ["the TPU is about to be taken"]
    parts = parts or unequal(reports, policy) or testing(reports, policy)
    return parts or unaware(gang, reports, policy)


def waiting_for(gang: Gang, reports: Reports, policy: Policy) -> str:
    """Say in words what a gang that does not run waits for."""
    return "; ".join(absent(reports, policy) or _not_ready(gang, reports, policy))
