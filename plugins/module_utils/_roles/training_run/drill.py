# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a drill, decide when a run is ready for it and when it is back, and judge the result.

A look is what `drill_host.look` has read about a run on its worker. No I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ..._host import run_states
from ..._host.run_states import ENDED_OR_STOPPED, FAILED, RUNNING, STOPPED, SUCCEEDED
from ..._schema.durations import seconds_in

KILL, AGENT, REBOOT = "kill", "agent", "reboot"
MAINTENANCE, DISK, PARTITION, PREEMPT = "maintenance", "disk", "partition", "preempt"
# What each drill does, in words.
DRILLS = {
    KILL: "kills the program on {host} with signal 9",
    AGENT: "kills the run agent on {host} with signal 9",
    REBOOT: "reboots {host}",
    MAINTENANCE: "asks for a simulated maintenance of {host}",
    DISK: "fills the disk of the checkpoints on {host} for {seconds} s",
    PARTITION: "cuts {host} off from the other workers for {seconds} s",
    PREEMPT: "has the local cloud preempt {slice}",
}
# These drills cost only time.
DEFAULT = (KILL, AGENT, REBOOT)
ON_HOST = (KILL, AGENT, REBOOT, DISK, PARTITION)

YES, WAIT, NEVER = "yes", "wait", "never"

SURVIVED, LOST, NOT_BACK = "survived", "lost steps", "not back"
UNKNOWN, SKIPPED, NOT_DONE = "back, steps unknown", "skipped", "not done"
GOOD = (SURVIVED, UNKNOWN, SKIPPED)

# A program that fails on its restart does so within this time.
_QUIET = 5.0
# After this time, the saved state is well beyond the beginning of the attempt.
_LEAST = 15.0
# The agent notices a step in a file up to this time after the program has written it.
_LATE = 2.0
# The least and the most; of durations in seconds.
NUMBERS = {
    "fleet_drill_worker": (0, 100_000),
    "fleet_drill_duration": (5, 3600),
    "fleet_drill_timeout": (1, 86_400),
    "fleet_drill_settle": (0, 86_400),
    "fleet_drill_lost_steps": (0, 10**12),
}
DURATIONS = ("fleet_drill_duration", "fleet_drill_timeout", "fleet_drill_settle")


def plan(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps of the drill, or the problems of the request."""
    problems: list[str] = []
    runs = {str(run.get("name")): run for run in asked.get("runs") or []}
    name = str(asked.get("fleet_run") or "")
    if name not in runs:
        declared = ", ".join(sorted(runs)) or "none at all"
        problems.append(
            f"fleet_run: there is no run {name!r}. Say -e fleet_run=NAME; the fleet file declares "
            f"{declared}."
        )
        return {"problems": problems, "steps": []}
    numbers = _numbers(asked, problems)
    wanted = asked.get("fleet_drills") or list(DEFAULT)
    if isinstance(wanted, str):
        wanted = [word.strip() for word in wanted.split(",")]
    problems += [
        f"fleet_drills: there is no drill {drill!r}. There are {', '.join(DRILLS)}."
        for drill in wanted
        if drill not in DRILLS
    ]
    slices = [str(one) for one in runs[name].get("slices") or []]
    chosen = str(asked.get("fleet_drill_slice") or (slices[0] if slices else ""))
    if chosen not in slices:
        problems.append(
            f"fleet_drill_slice: run {name} is not on a slice {chosen!r}. It is on "
            f"{', '.join(slices) or 'none'}."
        )
    there = {one["worker"]: one for one in asked.get("machines") or [] if one["slice"] == chosen}
    worker = numbers.get("fleet_drill_worker", 0)
    if chosen in slices and worker not in there:
        problems.append(
            f"fleet_drill_worker: slice {chosen} has no worker {worker} that can be used. "
            f"{_choice(there)}"
        )
    if problems:
        return {"problems": problems, "steps": []}
    machine = there[worker]
    words = {**machine, "seconds": numbers.get("fleet_drill_duration")}
    steps = [
        {
            "drill": drill,
            "does": DRILLS[drill].format(**words),
            "skip": _obstacle(drill, machine, str(asked.get("endpoint") or "")),
            "on_host": drill in ON_HOST,
        }
        for drill in wanted
    ]
    said = {key.replace("fleet_drill_", ""): numbers.get(key) for key in NUMBERS}
    lasts = {"seconds": said.pop("duration")}
    return {**machine, **said, **lasts, "problems": [], "run": name, "steps": steps}


def _numbers(asked: Mapping[str, Any], problems: list[str]) -> dict[str, int]:
    """Return the numbers of the request, which are strings if set with -e."""
    numbers = {}
    for key, (least, most) in NUMBERS.items():
        if asked.get(key) is None:
            continue
        text, is_time = str(asked[key]), key in DURATIONS
        number = seconds_in(text) if is_time else _whole(text)
        if number is not None and least <= number <= most:
            numbers[key] = number
            continue
        kind = "a duration" if is_time else "a whole number"
        unit = "s" if is_time else ""
        problems.append(
            f"{key}: {text!r} is not {kind} from {least}{unit} to {most}{unit}. Say one, or leave "
            "it out."
        )
    return numbers


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,15}", text) else None


def _choice(there: Mapping[int, Any]) -> str:
    if not there:
        return "It has none that can; look with tpu-fleet doctor."
    return f"Say -e fleet_drill_worker= {' or '.join(map(str, sorted(there)))}."


def _obstacle(drill: str, machine: Mapping[str, Any], endpoint: str) -> str:
    """Return why a drill is impossible there; empty if it is possible."""
    if drill == PARTITION and machine["workers"] < 2:
        return f"{machine['slice']} has only one worker, so there is nothing to cut it off from"
    if drill == PREEMPT and not is_here(endpoint):
        return "Google has no API for a preemption; try it on the local cloud"
    return ""


def is_here(endpoint: str) -> bool:
    """Return whether an API is a local cloud on this computer."""
    return (urlsplit(endpoint).hostname or "") in ("127.0.0.1", "localhost", "::1")


def is_running(look: Mapping[str, Any]) -> bool:
    """Return whether the program and its agent run."""
    return (
        look.get("state") == RUNNING
        and look.get("boot_id") == look.get("machine_boot_id")
        and bool(look.get("program_alive"))
        and bool(look.get("agent_alive"))
    )


def in_words(look: Mapping[str, Any]) -> str:
    """Return the state of the run in words."""
    state = str(look.get("state") or "not known to this worker")
    if state == RUNNING and look.get("boot_id") != look.get("machine_boot_id"):
        state = run_states.NOT_BACK
    elif state == RUNNING and not look.get("agent_alive"):
        state = "without an agent"
    reason = f": {look['reason']}" if look.get("reason") else ""
    return f"the run is {state}, attempt {look.get('attempt') or 0}{reason}"


def settled(look: Mapping[str, Any], settle: float) -> tuple[str, str]:
    """Return whether the run is in normal operation, so that a drill shows what it loses.

    It is if it has saved something since its attempt began, or has had the time for that.
    """
    if look.get("state") in ENDED_OR_STOPPED or not look.get("state"):
        return NEVER, in_words(look)
    if look.get("harm"):
        return WAIT, "a drill is under way on that worker"
    if not is_running(look):
        return WAIT, in_words(look)
    # A program that reported steps will report them again; older agents do not record which.
    if look.get("told_step") is not None and look.get("step") is None:
        return WAIT, "the program has not reported a step yet"
    ran = look["now"] - (look.get("first_step_at") or look.get("start") or 0)
    if ran >= settle or (ran >= _LEAST and has_saved(look) and _goes_on(look)):
        return YES, ""
    return WAIT, "the program has not saved anything yet"


def has_saved(look: Mapping[str, Any]) -> bool:
    """Return whether the checkpoint folder has a file of this attempt."""
    return (look.get("saved_at") or 0) > (look.get("start") or 0)


def _goes_on(look: Mapping[str, Any]) -> bool:
    first, step = look.get("first_step"), look.get("step")
    return first is None or step is None or step > first


def came_back(
    drill: str, before: Mapping[str, Any], look: Mapping[str, Any], seconds: float
) -> tuple[str, str]:
    """Return whether the drill is over and the run is in normal operation again."""
    if look.get("state") in (FAILED, STOPPED):
        return NEVER, in_words(look)
    if look.get("harm"):
        return WAIT, "the drill is not over"
    if not _has_happened(drill, before, look, seconds):
        return WAIT, f"it has had no effect yet; {in_words(look)}"
    if look.get("state") == SUCCEEDED:
        return YES, ""
    if not is_running(look):
        return WAIT, in_words(look)
    again = look["attempt"] > before["attempt"]
    if again and look["now"] - (look.get("start") or 0) < _QUIET:
        return WAIT, "it has only just started again"
    if before.get("step") is None:
        return YES, ""
    if again:
        ahead = look.get("first_step") is not None and _goes_on(look)
    else:
        ahead = look.get("step") is not None and look["step"] > before["step"]
    return (YES, "") if ahead else (WAIT, f"it makes no progress; {in_words(look)}")


def _has_happened(
    drill: str, before: Mapping[str, Any], look: Mapping[str, Any], seconds: float
) -> bool:
    if drill == AGENT:
        return bool(look.get("agent_pid") != before.get("agent_pid"))
    if drill == PREEMPT:
        return bool(look.get("machine_boot_id") != before.get("machine_boot_id"))
    if drill in (DISK, PARTITION):
        return bool(look["now"] >= before["now"] + seconds)
    return bool(look["attempt"] > before["attempt"])


def verdict(
    drill: str,
    before: Mapping[str, Any],
    look: Mapping[str, Any],
    allowed: int | None = None,
) -> dict[str, Any]:
    """Return the verdict on a run that is back: what it lost, and how long it took."""
    again = look["attempt"] > before["attempt"]
    last = _last_step(before, look)
    first = look.get("first_step") if again else None
    lost = 0 if not again else None
    if again and last is not None and first is not None:
        lost = max(0, last - first + 1)
    row = {
        **_of_before(drill, before),
        "attempt_after": look["attempt"],
        "last_step": last,
        "first_step": first,
        "lost_steps": lost,
        "seconds": _seconds(drill, before, look, again),
        "step_seconds": _since(before, look.get("first_step_at") if again else None),
        "after": dict(look),
    }
    if lost is None:
        return {**row, "verdict": UNKNOWN, "says": "the program does not report its steps"}
    says = []
    if not again:
        says.append("the program was not interrupted")
    elif look["attempt"] > before["attempt"] + 1:
        says.append(f"it took {look['attempt'] - before['attempt']} attempts")
    # Without a number: an attempt that returns to where the last one began has kept nothing.
    kept_nothing = lost > 0 and first is not None and first <= _as_at_the_beginning(before)
    bad = kept_nothing if allowed is None else lost > allowed
    if kept_nothing:
        says.append(f"it began again at step {first}, as if nothing had been saved")
        if not has_saved(before):
            says.append("it had saved nothing before: fleet_drill_settle gives it time for that")
    elif bad:
        says.append(f"more than fleet_drill_lost_steps ({allowed})")
    return {**row, "verdict": LOST if bad else SURVIVED, "says": "; ".join(says)}


def _of_before(drill: str, before: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "drill": drill,
        "at": before.get("now"),
        "attempt_before": before.get("attempt"),
        "before": dict(before),
    }


def _last_step(before: Mapping[str, Any], look: Mapping[str, Any]) -> int | None:
    """Return the last step before the drill; the program ran on for a moment after the look."""
    told = [before.get("step")]
    told += [
        entry.get("step")
        for entry in look.get("history") or []
        if before["attempt"] <= entry.get("attempt", -1) < look["attempt"]
    ]
    return max((step for step in told if step is not None), default=None)


def _as_at_the_beginning(before: Mapping[str, Any]) -> float:
    """Return the highest first step of an attempt that starts where the earlier one did."""
    first, step, at = before.get("first_step"), before.get("step"), before.get("first_step_at")
    if first is None or step is None or at is None:
        return float(first or 0)
    return float(first + _LATE * (step - first) / max(_LATE, before["now"] - at))


def _seconds(
    drill: str, before: Mapping[str, Any], look: Mapping[str, Any], again: bool
) -> float | None:
    if not again and drill != AGENT:
        return 0.0
    return _since(before, look.get("start" if again else "agent_since"))


def _since(before: Mapping[str, Any], at: float | None) -> float | None:
    return None if at is None else round(max(0.0, at - before["now"]), 1)


def not_back(drill: str, before: Mapping[str, Any], says: str, timeout: int) -> dict[str, Any]:
    """Return the verdict on a run that is not back."""
    why = f"not back after {timeout} s: {says}" if timeout else says
    return {**_of_before(drill, before), "verdict": NOT_BACK, "says": why}


def not_begun(drill: str, why: str, kind: str = NOT_DONE) -> dict[str, Any]:
    """Return the row of a drill that was not done."""
    return {"drill": drill, "verdict": kind, "says": why}


COLUMNS = (
    "drill",
    "verdict",
    "back after",
    "step after",
    "attempt",
    "last step",
    "first step",
    "lost",
    "says",
)


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of one row."""

    def shown(key: str) -> str:
        return "-" if row.get(key) is None else str(row[key])

    attempts = [row.get("attempt_before"), row.get("attempt_after")]
    numbers = list(dict.fromkeys(str(number) for number in attempts if number is not None))
    return [
        str(row["drill"]),
        str(row["verdict"]),
        "-" if row.get("seconds") is None else f"{row['seconds']:g} s",
        "-" if row.get("step_seconds") is None else f"{row['step_seconds']:g} s",
        " -> ".join(numbers) or "-",
        shown("last_step"),
        shown("first_step"),
        shown("lost_steps"),
        str(row.get("says") or ""),
    ]


def report(about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the report as a table for the screen, as Markdown and as JSON."""
    table = [list(COLUMNS), *(cells(row) for row in rows)]
    # On a screen, the sentences of the last column are below the other columns.
    widths = [max(len(line[at]) for line in table) for at in range(len(COLUMNS) - 1)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        for line in table
    ]
    lines += [f"{row['drill']}: {row['says']}" for row in rows if row.get("says")]
    bad = [str(row["drill"]) for row in rows if row["verdict"] not in GOOD]
    data = {**about, "ok": not bad, "drills": list(rows)}
    head = f"# Drill of run {about['run']} on {about['host']}, {about['at']}"
    marked = [_marked(line) for line in table]
    marked.insert(1, _marked(["---"] * len(COLUMNS)))
    return {
        "ok": not bad,
        "bad": bad,
        "lines": lines,
        "markdown": "\n".join([head, "", *marked, "", *_LEGEND, ""]),
        "json": json.dumps(data, indent=2, sort_keys=True) + "\n",
    }


def _marked(line: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"


_LEGEND = (
    "`back after`: until the program was started again; `step after`: until it reported a step.",
    "`last step`: of the attempt before; `first step`: of the attempt after; `lost`: steps that",
    "were done twice.",
)
