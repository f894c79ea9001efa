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

from .values import is_number, is_whole, json_object

SAID = ("restore", "compile", "data", "save")
"""The kinds that a program can say."""
KINDS = ("init", *SAID, "step")
PARTS = ("wait", "prepare", "import", "restore", "compile", "first_step")
"""Of a start, in this order: `wait` is before the attempt begins."""
_COUNTS = ("programs", "hits", "misses")
_MOST = 1e9

Seconds = dict[str, float]


def said(data: bytes) -> Seconds:
    """Return the seconds of an attempt that a program wrote down itself, by their kind."""
    return _seconds((json_object(data) or {}).get("seconds"), SAID)


def heard(told: Mapping[str, Any]) -> Seconds:
    """Return the seconds that the hook wrote down, with those of the import."""
    return _seconds(told.get("seconds"), ("import", "restore", "compile", "save"))


def counts(told: Mapping[str, Any]) -> dict[str, int]:
    """Return how many programs were compiled, and what the cache had of them."""
    found = {key: told.get(key) for key in _COUNTS}
    return {key: value for key, value in found.items() if is_whole(value) and 0 <= value < 10**9}


def _seconds(told: Any, names: tuple[str, ...]) -> Seconds:
    found = told if isinstance(told, Mapping) else {}
    return {
        name: float(found[name])
        for name in names
        if is_number(found.get(name)) and 0 <= found[name] < _MOST
    }


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
