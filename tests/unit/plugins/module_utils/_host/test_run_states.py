"""The one table of the states of a run, and the words for what is wrong with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import worker_words
from ansible_collections.tpu.fleet.plugins.module_utils._host import run_states
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import (
    RANKS,
    STATES,
    is_trouble,
    quiet_for,
    rank_of,
    why_of,
)

ROOT = Path(__file__).resolve().parents[5]
TABLE = ROOT / "plugins/module_utils/_host/run_states.py"
ENDS = {"succeeded", "failed"}


def other_tables() -> Iterator[str]:
    """Yield where else states that are ends are listed."""
    for place in ("plugins", "roles", "src/tpu_fleet"):
        for file in sorted((ROOT / place).rglob("*.py")):
            text = file.read_text()
            # Reading the code of all files takes seconds.
            if file.is_symlink() or file == TABLE or not all(end in text for end in ENDS):
                continue
            for found in ast.walk(ast.parse(text)):
                listed = found.elts if isinstance(found, ast.Tuple | ast.List | ast.Set) else []
                values = {one.value for one in listed if isinstance(one, ast.Constant)}
                if values >= ENDS:
                    yield f"{file.relative_to(ROOT)}:{found.lineno}"


def test_the_ends_of_a_run_are_listed_in_one_place() -> None:
    assert list(other_tables()) == []


def test_each_state_has_a_rank_and_trouble_comes_first() -> None:
    assert set(STATES) <= set(RANKS)
    order = sorted(STATES, key=rank_of)
    assert [is_trouble(state) for state in order] == sorted(map(is_trouble, order), reverse=True)
    assert worker_words.REFUSED == run_states.REFUSED
    # A state of a later version is nothing to pass over.
    assert is_trouble("something new")


@pytest.mark.parametrize("state", STATES)
def test_a_bad_loss_is_trouble_of_a_run_that_works_or_has_succeeded(state: str) -> None:
    works = state in ("running", "succeeded")
    assert is_trouble(state, bad_loss=True) is (works or is_trouble(state))


@pytest.mark.parametrize(
    ("lines", "signal", "why"),
    [
        (["step 3", "Traceback:", "  File x", "ValueError: bad", ""], None, "ValueError: bad"),
        (["jaxlib.xla_extension.XlaRuntimeError: INTERNAL: x", "bye"], None,
         "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: x"),
        (["KeyboardInterrupt"], None, "KeyboardInterrupt"),
        (["    raise ValueError: indented", "the last line"], None, "the last line"),
        (["python3: can't open file 'trian.py'"], None, "python3: can't open file 'trian.py'"),
        # Another process ended it: what it wrote last is not why.
        (["step 3 loss 2.1"], 9, ""),
        (["step 3 loss 2.1"], 6, "step 3 loss 2.1"),
        (["MemoryError"], 9, "MemoryError"),
        (["no such file", "--- tpu-fleet 2026 attempt 1 ended with exit code 2"], None,
         "no such file"),
        ([], None, ""),
    ],
)  # fmt: skip
def test_the_line_that_says_why_a_program_failed(
    lines: list[str], signal: int | None, why: str
) -> None:
    assert why_of(lines, signal) == why


@pytest.mark.parametrize(
    ("state", "first", "last", "now", "quiet"),
    [
        # One step a second, until 1000.
        ("running", (0, 900.0), (100, 1000.0), 1601.0, 601.0),
        ("running", (0, 900.0), (100, 1000.0), 1599.0, None),
        ("restarting", (0, 900.0), (100, 1000.0), 9000.0, None),
        # A step takes a minute: 100 of them are more than ten minutes.
        ("running", (0, 400.0), (10, 1000.0), 6999.0, None),
        ("running", (0, 400.0), (10, 1000.0), 7001.0, 6001.0),
        # Without two steps it is not known what is usual.
        ("running", (0, 900.0), (0, 900.0), 9000.0, None),
        ("running", None, (5, 900.0), 9000.0, None),
        ("running", (5, 900.0), None, 9000.0, None),
    ],
)
def test_a_run_is_quiet_that_makes_no_step_for_much_longer_than_usual(
    state: str,
    first: tuple[int, float] | None,
    last: tuple[int, float] | None,
    now: float,
    quiet: float | None,
) -> None:
    assert quiet_for(state, first, last, now) == quiet
