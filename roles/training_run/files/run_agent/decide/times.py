"""Where the time of an attempt goes: its start by its parts, and all of it in six kinds.

The kinds are those of Google's ml-goodput-measurement:

    init     TPU_INITIALIZATION, TRAINING_PREP, PROGRAM_STARTUP: until the first step, but for these
    restore  UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME
    compile  which Google counts in PROGRAM_STARTUP
    data     DATA_LOADING
    save     UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: as long as the program waits for it
    step     productive time: what is left after the first step

The agent sees when an attempt, its program and its first step begin. The hook for Python says what
JAX and Orbax report (`jax_times.py`). What the program itself says, as `"seconds": {"data": 12.5}`
beside its step, counts before the hook's. Both files are the user's, and only ever shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .run_times import KINDS, SAID, seconds_of
from .values import json_object

Seconds = dict[str, float]


def said(data: bytes) -> Seconds:
    """Return the seconds of an attempt that a program wrote down itself, by their kind."""
    return seconds_of((json_object(data) or {}).get("seconds"), SAID)


def heard(told: Mapping[str, Any]) -> Seconds:
    """Return the seconds that the hook wrote down, with those of the import."""
    return seconds_of(told.get("seconds"), ("import", "restore", "compile", "save"))


def start_of(
    waited: float, begun: float, program: float | None, first_step: float, known: Seconds
) -> Seconds:
    """Return the parts of a start, in seconds; `first_step` has what no other part explains.

    Of an import, a restore and a compilation nothing is known where the program is none of JAX.
    """
    whole = max(0.0, first_step - begun)
    prepare = 0.0 if program is None else min(max(0.0, program - begun), whole)
    parts = {"wait": max(0.0, waited), "prepare": prepare}
    left = whole - prepare
    for name in ("import", "restore", "compile"):
        if name in known:
            parts[name] = min(known[name], left)
            left -= parts[name]
    return {name: round(value, 2) for name, value in {**parts, "first_step": left}.items()}


def inside(
    begun: float, first_step: float | None, now: float, at_first: Seconds, known: Seconds
) -> Seconds:
    """Return the seconds of an attempt by their kind: together they are its length.

    `at_first` has what was known at the first step, `known` what is known now.
    """
    length = max(0.0, now - begun)
    start = length if first_step is None else min(max(0.0, first_step - begun), length)
    before = _shares(known if first_step is None else at_first, start)
    rest = {name: known.get(name, 0.0) - at_first.get(name, 0.0) for name in SAID}
    after = _shares(rest, length - start)
    found = {name: before[name] + after[name] for name in SAID}
    found["init"] = start - sum(before.values())
    found["step"] = length - start - sum(after.values())
    return {name: round(found[name], 2) for name in KINDS}


def _shares(known: Seconds, length: float) -> Seconds:
    """Return the seconds by their kind; of more than there are, as by threads, each has a share."""
    found = {name: max(0.0, known.get(name, 0.0)) for name in SAID}
    total = sum(found.values())
    return {
        name: value * min(1.0, length / total) if total else 0.0 for name, value in found.items()
    }
