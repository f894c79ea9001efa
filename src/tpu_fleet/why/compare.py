"""What a comparison of the workers shows: the one that differs from the others. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import Core
from ansible_collections.tpu.fleet.plugins.module_utils._host.worker_ports import (
    NO_ROUTE,
    OPEN,
    REFUSED,
    TIMEOUT,
    firewall_command,
)

from . import frames
from .case import Case, Finding, Worker
from .facts import finding, waiting_for
from .words import (
    age,
    all_of,
    doing,
    listed,
    others_wait,
    rest_of,
    verb,
    where_they_wait,
    workers_of,
)

KEYS = {
    frames.COMPILE: "compiles",
    frames.RESTORE: "restores",
    frames.SAVE: "saves",
    frames.UNKNOWN: "elsewhere",
    frames.IDLE: "elsewhere",
}
"""The cause of each kind of a stand; the others are called as their kind."""
PACKAGES = ("venv", "jax", "jaxlib", "libtpu", "torch", "torch_xla", "python")
SILENT = 600.0
"""Seconds without a line in the log for which a program without steps may wait."""
LOOKS = 4
"""How often a run that goes on is looked at, at most, to find a slow worker."""
LATE = 5.0
"""Seconds, and steps, that a worker may be behind."""


def comparison(case: Case, looks: Sequence[Case]) -> Iterator[Finding]:
    """Yield what differs between workers, in the last of these looks."""
    yield from _ports(case)
    yield from _versions(case)
    if case.is_quiet:
        yield from _stuck_cores(case)
        yield from _odd_places(case)
        yield from _stands(case)
    elif case.began:
        yield from _slow(looks)


# Ports


def _ports(case: Case) -> Iterator[Finding]:
    """Yield the ports of workers that others do not reach."""
    if case.began and not case.is_quiet:
        return
    tried: dict[tuple[int, int, str], list[Worker]] = {}
    for one in case.seen:
        for peer in one.evidence.ports.peers if one.evidence else ():
            if peer.result != OPEN and peer.worker != one.number:
                tried.setdefault((peer.worker, peer.port, peer.result), []).append(one)
    for (target, port, result), those in tried.items():
        if result != REFUSED:
            yield _blocked(case, target, port, result, those)
        elif case.is_quiet and not case.began:
            yield _refused(case, target, port, those)
    yield from [] if tried else _unanswered(case)


def _blocked(case: Case, target: int, port: int, result: str, those: Sequence[Worker]) -> Finding:
    why = {TIMEOUT: "a firewall", NO_ROUTE: "there is no route"}.get(result, result)
    everyone = len(those) > 1 and len(those) == len(case.seen) - 1
    who = f"{workers_of(those)} cannot" if not everyone else "no other worker can"
    text = f"{who} reach worker {target}:{port}: {why}"
    gone = any(one.number == target and one.evidence is None for one in case.workers)
    # It does not answer this computer either: then that is the matter.
    return finding(
        case, "blocked_port", text, those, bonus=-40 if gone else 0, firewall=_opened(case, port)
    )


def _opened(case: Case, port: int) -> str:
    """Return the command that opens a port between the workers."""
    return firewall_command([port], [one.address for one in case.workers])


def _refused(case: Case, target: int, port: int, those: Sequence[Worker]) -> Finding:
    text = f"nothing listens on worker {target}:{port}, which {workers_of(those)} "
    text += verb(those, "needs", "need")
    return finding(case, "nobody_listens", text, those)


def _unanswered(case: Case) -> Iterator[Finding]:
    """Yield connections of the program that are not answered, where no port was tried."""
    for one in case.seen:
        for each in one.evidence.ports.connecting if one.evidence else ():
            if each.state == "SYN_SENT":
                where = f"{each.address}:{each.port}"
                text = f"worker {one.number} cannot reach {where}: a firewall"
                yield finding(
                    case, "blocked_port", text, [one], bonus=-25, firewall=_opened(case, each.port)
                )
                break


# Versions


def _versions(case: Case) -> Iterator[Finding]:
    """Yield the workers with other code, packages or declaration than most."""
    said: dict[str, dict[str, list[Worker]]] = {}
    for one in case.seen:
        if one.evidence is None:
            continue
        for name, value in one.evidence.versions.items():
            said.setdefault(name, {}).setdefault(value, []).append(one)
        if one.evidence.run.definition:
            said.setdefault("", {}).setdefault(one.evidence.run.definition, []).append(one)
    for name in ("code", "", *PACKAGES):
        if len(said.get(name, {})) > 1:
            yield _version(case, name, said[name])


def _version(case: Case, name: str, values: dict[str, list[Worker]]) -> Finding:
    those, usual = _minority(values)
    key = {"code": "other_code", "": "other_definition"}.get(name, "other_version")
    what = {"code": "other code", "": "another declaration"}.get(name, f"another {name}")
    own = ", ".join(_short(value) for value, one in values.items() if one[0] in those)
    if not usual:
        each = ", ".join(f"{_short(value)} on {workers_of(one)}" for value, one in values.items())
        text = f"the workers have different {name or 'declarations'}: {each}"
        those = [one for group in values.values() for one in group]
    else:
        text = f"{workers_of(those)} {verb(those, 'has', 'have')} {what} ({own}) than "
        text += f"{rest_of(case, values[usual], len(those))} ({_short(usual)})"
    if case.began and not case.is_quiet:
        return finding(case, "note", text, those)
    text += waiting_for(case, those) if usual else ""
    return finding(case, key, text, those, bonus=-20 if name == "python" else 0)


def _minority(values: dict[str, list[Worker]]) -> tuple[list[Worker], str]:
    """Return the workers that differ, and the value that most have; empty if no value leads."""
    ranked = sorted(values, key=lambda value: -len(values[value]))
    if len(values[ranked[0]]) == len(values[ranked[1]]):
        return [], ""
    return [one for value in ranked[1:] for one in values[value]], ranked[0]


def _short(value: str) -> str:
    """Shorten a hash in a version: a commit is known by its first digits."""
    words = value.split(" ")
    return " ".join(word[:10] if len(word) >= 32 and word.isalnum() else word for word in words)


# Cores


@dataclass(frozen=True)
class Launches:
    """What the cores of all workers run."""

    top: int = 0
    program: str = ""
    late: tuple[Worker, ...] = ()
    """The workers that have not launched what the others run."""


def launches(case: Case) -> Launches:
    """Return which program is the newest, and who has not launched it."""
    newest: dict[int, int] = {}
    programs: dict[int, str] = {}
    for one in case.seen:
        for core in _cores(one):
            if core.launch_id is not None:
                newest[one.number] = max(core.launch_id, newest.get(one.number, core.launch_id))
                programs.setdefault(core.launch_id, core.program)
    if not newest:
        return Launches()
    top = max(newest.values())
    late = [one for one in case.seen if newest.get(one.number, top) < top and not _queued(one)]
    return Launches(top, programs.get(top, ""), tuple(late))


def _cores(one: Worker) -> tuple[Core, ...]:
    port = one.evidence.monitoring if one.evidence else None
    return port.cores if port else ()


def _queued(one: Worker) -> bool:
    return any(core.queued for core in _cores(one))


def _stuck_cores(case: Case) -> Iterator[Finding]:
    """Yield the cores that stand at an earlier program than others, which was launched there."""
    found = launches(case)
    for one in case.seen:
        cores = [each for each in _cores(one) if each.launch_id is not None]
        late = [each for each in cores if (each.launch_id or 0) < found.top]
        if late and (len(late) < len(cores) or _queued(one)) and not late[0].error:
            yield _stuck(case, one, late, found)


def _stuck(case: Case, one: Worker, late: Sequence[Core], found: Launches) -> Finding:
    first = late[0]
    numbers = listed([str(each.core) for each in late])
    cores = f"core {numbers}" if len(late) == 1 else f"cores {numbers}"
    stands = "stands" if len(late) == 1 else "stand"
    text = f"{cores} of worker {one.number} {stands} at program {first.launch_id}"
    text += f" ({first.program})" if first.program else ""
    text += f"{age(one.quiet_s)}, and the other cores are at {found.top}"
    return finding(case, "stuck_core", text, [one], one.quiet_s)


def _odd_places(case: Case) -> Iterator[Finding]:
    """Yield the cores that compute in a program while most wait for them in it."""
    there = [(one, core) for one in case.seen for core in _cores(one) if core.hlo]
    odd = [(one, core) for one, core in there if not frames.DEVICE_WAITS.match(core.hlo)]
    if not odd or len(odd) * 2 > len(there):
        return
    waiting = [core for _one, core in there if frames.DEVICE_WAITS.match(core.hlo)]
    for worker in case.seen:
        cores = [core for one, core in odd if one is worker and not core.error]
        if cores:
            yield _odd_place(case, worker, cores, waiting)


def _odd_place(case: Case, one: Worker, odd: Sequence[Core], waiting: Sequence[Core]) -> Finding:
    numbers = listed([str(core.core) for core in odd])
    cores = f"core {numbers} of worker {one.number} stands"
    if len(odd) > 1:
        cores = f"cores {numbers} of worker {one.number} stand"
    text = f"{cores} in {odd[0].hlo}{age(one.quiet_s)}, and the other {len(waiting)} cores wait"
    text += f" in {waiting[0].hlo}"
    return finding(case, "stuck_core", text, [one], one.quiet_s)


# Stands


def _stands(case: Case) -> Iterator[Finding]:
    """Yield those that have not come to where the others wait; or that all wait alike."""
    late = list(launches(case).late)
    waiting = [one for one in case.others(late) if one.stand.waits_for_others]
    odd = [one for one in case.working if one not in waiting]
    if not waiting or not odd:
        waiting, odd = _by_place(case, waiting, odd)
    if waiting and odd:
        yield from _odd_ones(case, odd, waiting)
    elif case.working:
        yield from _alike(case)


def _by_place(
    case: Case, waiting: list[Worker], odd: list[Worker]
) -> tuple[list[Worker], list[Worker]]:
    """Find by lines and steps which workers wait for which, where the calls do not say it."""
    behind = _behind(case)
    if behind:
        return case.others(behind), behind
    blind = Counter(one.stand.at for one in odd if one.stand.is_blind)
    if waiting or not blind:
        return waiting, odd
    (place, count), *others = blind.most_common()
    most = [one for one in odd if one.stand.is_blind and one.stand.at == place]
    # Where several places are waited at, most have to wait at one.
    if len(most) < len(odd) and (not others or count * 2 > len(odd)):
        return most, case.others(most)
    return waiting, odd


def _behind(case: Case) -> list[Worker]:
    """Return the workers at an earlier step than most others."""
    steps = {
        one.number: one.evidence.run.step for one in case.working if one.evidence and one.began
    }
    known = [step for step in steps.values() if step is not None]
    if len(known) < 2 or min(known) == max(known):
        return []
    behind = [one for one in case.working if steps.get(one.number, max(known)) != max(known)]
    return behind if len(behind) * 2 <= len(case.working) else []


def _odd_ones(case: Case, odd: Sequence[Worker], waiting: Sequence[Worker]) -> Iterator[Finding]:
    kinds: dict[str, list[Worker]] = {}
    for one in odd:
        kinds.setdefault(_key_of(one), []).append(one)
    for key, those in kinds.items():
        yield _odd(case, key, those, waiting)


def _key_of(one: Worker) -> str:
    if len(one.standing.locked) > 1:
        return "dead_lock"
    if one.stand.waits_for_others:
        return "behind"
    return KEYS.get(one.stand.kind, one.stand.kind)


def _odd(case: Case, key: str, those: Sequence[Worker], waiting: Sequence[Worker]) -> Finding:
    """Say what these do while the others wait for them."""
    first, since = those[0], those[0].quiet_s
    who = workers_of(those)
    found = launches(case)
    if all(one in found.late for one in those):
        program = f" ({found.program})" if found.program else ""
        who += f" {verb(those, 'has', 'have')} not launched program {found.top}{program}; "
        who += verb(those, "it", "they")
    text = f"{who} {_doing(case, key, those)}"
    text += others_wait(case, waiting, len(those))
    return finding(case, key, text, those, since, pid=_pid(first))


def _pid(one: Worker) -> str:
    return str(one.standing.process.pid) if one.standing.process else ""


def _doing(case: Case, key: str, those: Sequence[Worker]) -> str:
    first = those[0]
    long = age(first.quiet_s)
    if key == "dead_lock":
        places = listed(list(dict.fromkeys(one.at for one in first.standing.locked))[:3])
        return (
            f"{verb(those, 'is', 'are')} in a dead lock{long}: its threads want locks in {places}"
        )
    if key == "behind":
        waits = f"{verb(those, 'waits', 'wait')}{where_they_wait([first.stand])}{long}"
        return f"{_step_of(case, first)}{waits}"
    said = f"{doing(first.stand, len(those))}{long}"
    behind = first.standing.behind
    if behind is None or len(those) > 1:
        return said
    main = first.standing.process
    own = main is not None and behind.process.pid == main.pid
    what = "another thread" if own else f"its process {behind.process.pid}"
    return f"{said} while {what} {doing(behind.stand)}"


def _step_of(case: Case, one: Worker) -> str:
    step = one.evidence.run.step if one.evidence else None
    if step is None or not case.steps or step == case.steps[-1]:
        return ""
    return f"is at step {step}, the others at {case.steps[-1]}, and "


def _alike(case: Case) -> Iterator[Finding]:
    """Yield what all do, where none stands out."""
    kinds = Counter(_key_of(one) for one in case.working)
    if len(kinds) > 1:
        yield from _odd_ones(case, case.working, [])
        return
    key = next(iter(kinds))
    first, count = case.working[0], len(case.working)
    who = "the program" if count == 1 else all_of(count)
    if key == "behind" or (key == "lock" and count > 1 and _at_one_place(case)):
        # Programs that report no step may wait for long in one.
        is_usual = not case.steps and (case.quiet_s or 0) < SILENT
        yield from [] if is_usual or count < len(case.workers) else [_together(case, who)]
        return
    if key == "elsewhere":
        text = f"{who} {verb(case.working, 'has', 'have')} made no step{age(case.quiet_s)}, and "
        text += (
            "what is seen of them does not say why"
            if count > 1
            else "what is seen does not say why"
        )
        yield finding(case, "unknown", text, [], case.quiet_s)
        return
    said = _doing(case, key, case.working)
    yield finding(case, key, f"{who} {said}", case.working, case.quiet_s, pid=_pid(first))


def _at_one_place(case: Case) -> bool:
    """Return whether all wait at the same line, in what no Python frame shows."""
    return len({one.stand.at for one in case.working if one.stand.is_blind}) == 1 and all(
        one.stand.is_blind for one in case.working
    )


def _together(case: Case, who: str) -> Finding:
    stands = [one.stand for one in case.working]
    alone = len(stands) == 1
    text = f"{who} {'waits' if alone else 'wait for each other'}{where_they_wait(stands)}"
    text += age(case.quiet_s) + ("" if alone else ", and none stands out")
    return finding(case, "together", text, [], case.quiet_s)


# Slow workers


def _slow(looks: Sequence[Case]) -> Iterator[Finding]:
    """Yield the worker for which all others wait in most looks, or whose steps come late."""
    case = looks[-1]
    slow = _waited_for(looks)
    late = _late(case)
    for one in case.working:
        if one.number == slow:
            yield _slow_in_looks(looks, slow)
        elif one.number in late:
            text = f"worker {one.number} is slow: it comes to each step {late[one.number]:.0f} s "
            yield finding(case, "slow", f"{text}after the others", [one])


def _slow_in_looks(looks: Sequence[Case], slow: int) -> Finding:
    """Say what it did at the last look in which the others waited for it."""
    showing = [look for look in looks if _alone(look) == slow]
    one = next(each for each in showing[-1].working if each.number == slow)
    often = f"in {len(showing)} of {len(looks)}" if len(showing) < len(looks) else ""
    often = often or f"in each of {len(looks)}"
    text = f"worker {slow} is slow: {often} looks it {doing(one.stand)}"
    return finding(looks[-1], "slow", text + waiting_for(showing[-1], [one]), [one], bonus=5)


def _waited_for(looks: Sequence[Case]) -> int | None:
    """Return the worker for which the others wait in each look, or in all but one of four."""
    alone = [_alone(look) for look in looks]
    those = {number for number in alone if number is not None}
    enough = len(looks) > 1 and (None not in alone or len(looks) >= LOOKS)
    return those.pop() if enough and _may_be_slow(alone) else None


def may_show_more(looks: Sequence[Case]) -> bool:
    """Return whether a further look may show a worker for which the others wait.

    One look may fall into the moment in which the others compute too: it shows no worker alone.
    """
    return len(looks) < LOOKS and _may_be_slow([_alone(look) for look in looks])


def _may_be_slow(alone: Sequence[int | None]) -> bool:
    """Return whether at most one look shows none, and no two looks show different workers."""
    return alone.count(None) < 2 and len(set(alone) - {None}) < 2


def _alone(case: Case) -> int | None:
    """Return the only worker that does not wait for the others."""
    busy = [one for one in case.working if not (one.stand.waits_for_others or one.stand.is_blind)]
    return busy[0].number if len(busy) == 1 and len(case.working) > 1 else None


def _late(case: Case) -> dict[int, float]:
    """Return by how many seconds workers come to a step after the first one.

    Each step is taken back by the usual time to the step of the slowest.
    """
    usual = case.usual_s
    came: dict[int, tuple[int, float]] = {}
    for one in case.working:
        run = one.evidence.run if one.evidence else None
        if (
            one.evidence
            and run
            and run.step is not None
            and run.step_age_s is not None
            and one.began
        ):
            came[one.number] = (run.step, one.evidence.at - run.step_age_s)
    if not usual or len(came) < 2:
        return {}
    at_zero = {number: at - step * usual for number, (step, at) in came.items()}
    first = min(at_zero.values())
    limit = max(LATE, LATE * usual)
    return {number: at - first for number, at in at_zero.items() if at - first > limit}
