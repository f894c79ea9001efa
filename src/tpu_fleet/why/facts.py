"""What is certain of single workers, whatever the others do. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import (
    Disk,
    Evidence,
    Frame,
    Holder,
    Process,
)
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import ENDED_OR_STOPPED

from .case import Case, Finding, Worker
from .frames import is_library, place_of
from .words import all_of, others_wait, size, workers_of

LEAST_FREE, LEAST_SHARE = 64 << 20, 0.005
"""Bytes, and the share of a file system, below which it is called full."""
LOW_SHARE = 0.03
"""The share below which it is mentioned."""
NO_SPACE = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded", re.IGNORECASE)
FROM_OTHERS = re.compile(
    r"coordinat|heartbeat|barrier|connection (reset|closed|refused)|closed by peer|broken pipe"
    r"|UNAVAILABLE|DEADLINE_EXCEEDED|another task|socket closed|gloo|peer",
    re.IGNORECASE,
)
"""What an exception says that another worker's end has caused."""
TRACED_LINE = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$')
LONGEST = 160
"""Characters of an exception in the sentence."""


def facts(case: Case) -> Iterator[Finding]:
    """Yield what is certain of single workers."""
    for one in case.workers:
        if one.evidence is None:
            yield _absent(case, one)
        else:
            yield from _of_disks(case, one, one.evidence)
            yield from _of_memory(case, one, one.evidence)
            yield from _of_processes(case, one, one.evidence)
            yield from _of_chips(case, one, one.evidence)
            yield from _of_agent(case, one, one.evidence)
    yield from _errors(case)
    yield from _without_program(case)
    yield from _of_cores(case)


def finding(
    case: Case,
    key: str,
    text: str,
    those: Sequence[Worker],
    since_s: float | None = None,
    bonus: int = 0,
    **fields: str,
) -> Finding:
    """Return a finding about workers, with what each remedy may name."""
    first = those[0] if those else None
    told = {
        "run": case.run,
        "slice": case.slice,
        "host": first.host if first else "",
        "worker": str(first.number) if first else "",
        **fields,
    }
    numbers = tuple(one.number for one in those)
    return Finding(key, text, numbers, tuple(one.host for one in those), since_s, told, bonus)


def waiting_for(case: Case, those: Sequence[Worker]) -> str:
    """Return the clause of the others, of those that wait for all workers."""
    others = case.others(those)
    waiting = [one for one in others if one.stand.waits_for_others]
    if not waiting and len({one.stand.at for one in others}) == 1:
        waiting = [one for one in others if one.stand.is_blind]
    return others_wait(case, waiting, len(those))


def _absent(case: Case, one: Worker) -> Finding:
    says = one.absent.rstrip(".")
    if one.lack != "no_answer":
        return finding(case, one.lack, f"worker {one.number}: {says}", [one])
    text = f"worker {one.number} does not answer" + (f" ({says})" if says else "")
    return finding(case, "no_answer", text + waiting_for(case, [one]), [one])


def _of_disks(case: Case, one: Worker, told: Evidence) -> Iterator[Finding]:
    seen: set[tuple[int | None, int | None]] = set()
    for disk in told.disk:
        # Several folders may be on one file system.
        if (disk.free_bytes, disk.size_bytes) not in seen or not disk.answers:
            yield from _of_disk(case, one, told, disk)
        seen.add((disk.free_bytes, disk.size_bytes))


def _of_disk(case: Case, one: Worker, told: Evidence, disk: Disk) -> Iterator[Finding]:
    name = f"{disk.path} of worker {one.number}" + (f" ({disk.what})" if disk.what else "")
    if not disk.answers:
        text = f"{name} does not answer: the server of the share, or the network to it, is gone"
        yield finding(case, "silent_disk", text + waiting_for(case, [one]), [one])
    elif is_full(disk):
        left = f"{size(disk.free_bytes or 0)} of {size(disk.size_bytes or 0)} are free"
        left = "no more files can be made" if disk.free_files == 0 else left
        failed = bool(NO_SPACE.search(" ".join([*(told.error or ()), *told.run.log_tail])))
        text = f"{name} is full: {left}" + waiting_for(case, [one])
        bonus = 0 if failed or case.is_quiet else -60
        yield finding(case, "full_disk", text, [one], bonus=bonus, path=disk.path)
    elif disk.size_bytes and (disk.free_bytes or 0) < LOW_SHARE * disk.size_bytes:
        left = f"{size(disk.free_bytes or 0)} of {size(disk.size_bytes)} are free"
        yield finding(case, "note", f"{name} is nearly full: {left}", [one])


def is_full(disk: Disk) -> bool:
    """Return whether nothing can be written to a file system any more."""
    if disk.free_files == 0:
        return True
    if disk.free_bytes is None:
        return False
    share = LEAST_SHARE * (disk.size_bytes or 0)
    return disk.free_bytes < min(LEAST_FREE, share or LEAST_FREE)


def _of_memory(case: Case, one: Worker, told: Evidence) -> Iterator[Finding]:
    memory = told.memory
    if memory is None:
        return
    if memory.oom:
        what = memory.oom_killed or "a process of the run"
        text = f"the kernel of worker {one.number} ended {what}, because its memory was used up"
        yield finding(case, "oom", text + waiting_for(case, [one]), [one])
    elif memory.size_bytes and (memory.free_bytes or 0) < LOW_SHARE * memory.size_bytes:
        left = f"{size(memory.free_bytes or 0)} of {size(memory.size_bytes)} are free"
        yield finding(
            case, "note", f"the memory of worker {one.number} is nearly full: {left}", [one]
        )


def _of_processes(case: Case, one: Worker, told: Evidence) -> Iterator[Finding]:
    for process in told.processes:
        if process.state in ("T", "t"):
            yield _stopped(case, one, process)


def _stopped(case: Case, one: Worker, process: Process) -> Finding:
    what = f"process {process.pid}" + (f" (`{process.command[:60]}`)" if process.command else "")
    how = "is stopped, as by SIGSTOP or Ctrl-Z" if process.state == "T" else "is held by a debugger"
    key = "stopped" if process.state == "T" else "traced"
    text = f"{what} of worker {one.number} {how}" + waiting_for(case, [one])
    # The program itself counts before its helpers.
    main = one.standing.process
    bonus = 1 if main is not None and main.pid == process.pid else 0
    return finding(case, key, text, [one], one.quiet_s, bonus, pid=str(process.pid))


def _of_chips(case: Case, one: Worker, told: Evidence) -> Iterator[Finding]:
    if told.chips is None:
        return
    strangers = [each for each in told.chips.holders if not each.ours]
    for pid in dict.fromkeys(each.pid for each in strangers):
        yield _held(case, one, [each for each in strangers if each.pid == pid])
    present, usual = told.chips.present, _usual_chips(case)
    if present < usual:
        text = f"worker {one.number} has {present} of its {usual} chips"
        yield finding(case, "chips_missing", text + waiting_for(case, [one]), [one])


def _usual_chips(case: Case) -> int:
    """Return how many chips most workers have, which are of one type; 0 if they do not agree."""
    told = (one.evidence.chips for one in case.seen if one.evidence)
    found = Counter(chips.present for chips in told if chips)
    (present, workers), *_others = found.most_common(1) or [(0, 0)]
    return present if 2 * workers > found.total() else 0


def _held(case: Case, one: Worker, holders: Sequence[Holder]) -> Finding:
    first = holders[0]
    chips = f"{len(holders)} chips" if len(holders) > 1 else first.chip
    what = f"process {first.pid}" + (f" (`{first.command[:60]}`)" if first.command else "")
    owner = f" of {first.user}" if first.user else ""
    text = f"{chips} of worker {one.number} {'are' if holders[1:] else 'is'} held by {what}{owner}"
    # A run that has made steps beside it does not wait for it.
    bonus = -78 if case.began else 0
    return finding(case, "chips_held", text, [one], bonus=bonus, pid=str(first.pid))


def _of_agent(case: Case, one: Worker, told: Evidence) -> Iterator[Finding]:
    if told.run.agent is False and told.run.state not in ENDED_OR_STOPPED:
        text = f"the run agent of worker {one.number} does not run"
        yield finding(case, "agent_gone", text + waiting_for(case, [one]), [one])
    for said in told.run.stand_out:
        yield finding(case, "stands_out", said.rstrip("."), _named_in(case, said))
    for problem in told.run.problems:
        yield finding(case, "note", f"worker {one.number}: {problem.rstrip('.')}", [one])


def _named_in(case: Case, text: str) -> list[Worker]:
    """Return the worker with which a line of an agent begins."""
    number = re.match(r"worker (\d+) ", text)
    return [one for one in case.workers if number and one.number == int(number[1])]


# Exceptions and ends


def exception_of(lines: Sequence[str]) -> str:
    """Return the line of a traceback that names the exception."""
    told = [line.strip() for line in lines if line.strip() and not line.startswith(" ")]
    last = told[-1] if told else (lines[-1].strip() if lines else "")
    return last if len(last) <= LONGEST else f"{last[: LONGEST - 1]}…"


def place_in(lines: Sequence[str]) -> str:
    """Return the user's innermost line in a traceback; empty if there is none."""
    found = [match for line in lines if (match := TRACED_LINE.match(line))]
    whole = [Frame(one["function"], one["file"], int(one["line"])) for one in found]
    own = [frame for frame in whole if not is_library(frame)]
    return place_of(own[-1]) if own else ""


def _errors(case: Case) -> Iterator[Finding]:
    """Yield the exceptions: those that another worker's end has caused count less."""
    failed: dict[str, list[Worker]] = {}
    for one in case.seen:
        if one.evidence and one.evidence.error:
            failed.setdefault(exception_of(one.evidence.error), []).append(one)
    for says, those in failed.items():
        yield _error(case, says, those)


def _error(case: Case, says: str, those: Sequence[Worker]) -> Finding:
    told = those[0].evidence
    place = place_in(told.error or ()) if told else ""
    everyone = len(those) == len(case.workers) > 1
    who = all_of(len(those)) if everyone else workers_of(those)
    text = f"{who} failed with `{says}`" + (f" ({place})" if place else "")
    dead = [one for one in those if not one.has_program]
    goes_on = not case.is_quiet and len(dead) < len(those)
    if goes_on:
        text = f"{who} printed `{says}`" + (f" ({place})" if place else "")
        return finding(case, "note", f"{text}, and the run goes on", those)
    text += waiting_for(case, those)
    bonus = -50 if FROM_OTHERS.search(says) else 0
    return finding(case, "error", text, those, those[0].quiet_s, bonus)


def _without_program(case: Case) -> Iterator[Finding]:
    """Yield the workers without a process, where others have one."""
    if not case.working:
        return
    for one in case.seen:
        if not one.has_program and one.evidence and not one.evidence.error:
            ended = one.evidence.run.program == "ended"
            yield _ended(case, one) if ended else _not_started(case, one, one.evidence)


def _ended(case: Case, one: Worker) -> Finding:
    run = one.evidence.run if one.evidence else None
    how = ""
    if run and run.signal is not None:
        how = f" by signal {run.signal}"
    elif run and run.exit is not None:
        how = f" with exit code {run.exit}"
    text = f"the program of worker {one.number} has ended{how}"
    return finding(case, "ended", text + waiting_for(case, [one]), [one])


def _not_started(case: Case, one: Worker, told: Evidence) -> Finding:
    reason = told.run.reason or (told.run.problems[0] if told.run.problems else "")
    text = f"worker {one.number} has not started its program"
    text += f" ({reason.rstrip('.')})" if reason else ""
    return finding(case, "not_started", text + waiting_for(case, [one]), [one])


# Cores


def _of_cores(case: Case) -> Iterator[Finding]:
    for one in case.seen:
        port = one.evidence.monitoring if one.evidence else None
        for core in port.cores if port else ():
            if core.error:
                says = core.error.rstrip(".")
                text = f"core {core.core} of worker {one.number} reports: {says}"
                yield finding(case, "core_error", text + waiting_for(case, [one]), [one])
                break
