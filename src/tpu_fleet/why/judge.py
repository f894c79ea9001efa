"""The judge: what all workers show goes in, one sentence and what else was seen come out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import (
    FAILED,
    PENDING,
    RESTARTING,
    STOPPED,
    SUCCEEDED,
)

from .case import QUIET, Case, Finding, Verdict
from .causes import FINE
from .compare import comparison
from .facts import facts, finding
from .words import age, all_of

WITHOUT_CAUSE = ("together", "unknown", "starts", "healthy")
"""What is only said of a run in which no cause is found."""
MOST = 12
"""Findings that are kept beside the answer."""


def judge(looks: Sequence[Case]) -> Verdict:
    """Return the verdict for a run; of several looks the last one counts, the others compare."""
    case = looks[-1]
    found = [*facts(case), *comparison(case, looks), *_whole(case)]
    if any(one.cause.grade < FINE and one.key not in WITHOUT_CAUSE for one in found):
        found = [one for one in found if one.key not in WITHOUT_CAUSE]
    found = sorted(_once(found), key=lambda one: one.order)
    return Verdict(case, tuple(found[: MOST + 1]))


def _once(found: Sequence[Finding]) -> Iterator[Finding]:
    """Leave out what is said twice."""
    seen: set[str] = set()
    for one in found:
        if one.text not in seen:
            seen.add(one.text)
            yield one


def _whole(case: Case) -> Iterator[Finding]:
    """Yield what the run as a whole is: over, waiting, starting, healthy. One of them always."""
    states = [one.evidence.run.state for one in case.seen if one.evidence]
    if case.working:
        yield _running(case)
    elif FAILED in states:
        yield finding(case, "failed", f"{case.run} has failed" + _reason(case), [])
    elif states and set(states) <= {SUCCEEDED, STOPPED}:
        how = "has succeeded" if SUCCEEDED in states else "is stopped"
        yield finding(case, "over", f"{case.run} {how}" + _reason(case), [])
    elif RESTARTING in states:
        yield finding(case, "restarts", f"{case.run} is between two attempts" + _reason(case), [])
    elif PENDING in states:
        yield finding(case, "queued", f"{case.run} has not begun" + _reason(case), [])
    else:
        yield finding(case, "unknown", f"no process of {case.run} is there" + _reason(case), [])


def _reason(case: Case) -> str:
    """Return what the agents say of it."""
    said = [one.evidence.run.reason for one in case.seen if one.evidence]
    reasons = dict.fromkeys(text.rstrip(".") for text in said if text)
    return f": {'; '.join(list(reasons)[:3])}" if reasons else ""


def _running(case: Case) -> Finding:
    """Say that it is healthy, or that it is too early to say."""
    count = len(case.working)
    those = "its program runs" if count == 1 else f"{all_of(count)} run"
    if count < len(case.workers):
        those = f"{count} of {len(case.workers)} workers run"
    if case.is_quiet and case.steps:
        return _quiet(case)
    if not case.began:
        return _starting(case, those)
    steps = "-".join(map(str, dict.fromkeys((case.steps[0], case.steps[-1]))))
    ago = f"{long(case.quiet_s or 0)} ago" if (case.quiet_s or 0) >= 1 else "just now"
    text = f"{case.run} is healthy: {those}, at step {steps}, and the last step was {ago}"
    return finding(case, "healthy", text, [])


def _quiet(case: Case) -> Finding:
    text = f"{case.run} has made no step{age(case.quiet_s)}"
    return finding(case, "unknown", text, [], case.quiet_s, bonus=-30)


def _starting(case: Case, those: str) -> Finding:
    """Say what a run does that has made no step in this attempt, or never reports one."""
    started = [one.evidence.run.started_age_s for one in case.working if one.evidence]
    seconds = min((one for one in started if one is not None), default=None)
    if seconds is None or seconds < QUIET:
        text = f"{case.run} starts: {those}{age(seconds)}, and no step is made yet"
        return finding(case, "starts", text, [])
    text = (
        f"{case.run} is healthy as far as is seen: {those}{age(seconds)}, without a step in this "
    )
    return finding(case, "healthy", f"{text}attempt", [])
