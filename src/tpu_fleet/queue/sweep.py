"""A sweep: one command with places for values, and each combination of the values as a run.

`--sweep lr=1e-3,3e-4 --sweep seed=1..3` with `{lr}` and `{seed}` in the command are six runs. The
value that is named first changes last.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import MOST_ARMS
from ansible_collections.tpu.fleet.plugins.module_utils._schema.values import VARIABLE_NAME

MOST_RUNS = MOST_ARMS
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")

Arm = Mapping[str, str]
"""The value of each key, in one run."""


class SubmitError(ValueError):
    """What is wanted cannot be submitted; the text has a line for each field, value and remedy."""


def read_sweep(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each key, from texts such as `lr=1e-3,3e-4` and `seed=1..3`.

    Raises SubmitError for the first that is wrong.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        key, sign, values = text.partition("=")
        if not sign or not VARIABLE_NAME.fullmatch(key):
            raise SubmitError(f"--sweep {text}: it has no name. Write it as lr=1e-3,3e-4")
        if key in found:
            raise SubmitError(f"--sweep {text}: {key} is there twice. Name all its values in one")
        found[key] = _values(text, values)
    return found


def _values(text: str, values: str) -> list[str]:
    found = [one for part in values.split(",") for one in _of_range(part.strip())]
    if "" in found:
        raise SubmitError(f"--sweep {text}: a value is empty. Leave the comma out")
    twice = next((one for one in found if found.count(one) > 1), None) if len(found) < 5000 else ""
    if twice or len(found) > MOST_RUNS:
        why = f"{twice} is there twice. Name each value once" if twice else _TOO_MANY
        raise SubmitError(f"--sweep {text}: {why}")
    return found


_TOO_MANY = f"it has more than {MOST_RUNS} values. Submit it in parts"


def _of_range(text: str) -> list[str]:
    """Return the whole numbers of `1..3`; any other text stays as it is."""
    match = _RANGE.fullmatch(text)
    if not match:
        return [text]
    first, last = int(match[1]), int(match[2])
    step = 1 if last >= first else -1
    # One more than is allowed is enough to be refused.
    return [str(n) for n in itertools.islice(range(first, last + step, step), MOST_RUNS + 1)]


def arms_of(sweep: Mapping[str, Sequence[str]]) -> list[Arm]:
    """Return each combination of the values; one without values if nothing is swept.

    Raises SubmitError if they are too many.
    """
    count = 1
    for values in sweep.values():
        count *= len(values)
    if count > MOST_RUNS:
        raise SubmitError(f"--sweep: it makes {count:,} runs, over {MOST_RUNS}. Submit it in parts")
    return [dict(zip(sweep, one, strict=True)) for one in itertools.product(*sweep.values())]


def with_values(command: Sequence[str], arm: Arm) -> list[str]:
    """Return a command with the values of an arm in place of `{key}`; other braces stay."""
    if not arm:
        return list(command)
    place = re.compile("|".join(rf"\{{{key}\}}" for key in arm))
    return [place.sub(lambda found: arm[found[0][1:-1]], word) for word in command]


def unused(command: Sequence[str], sweep: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the keys whose values the command does not take."""
    return [key for key in sweep if not any(f"{{{key}}}" in word for word in command)]


def names_of(base: str, count: int, swept: bool) -> list[str]:
    """Return the names of the runs: the name itself, or numbered from 1 where it is a sweep."""
    return [f"{base}-{number}" for number in range(1, count + 1)] if swept else [base]
