"""The values of a sweep, and the runs that they make."""

from __future__ import annotations

import pytest

from tpu_fleet.queue.sweep import SubmitError, arms_of, names_of, read_sweep, unused, with_values


def test_each_combination_is_a_run_and_the_first_key_changes_last() -> None:
    sweep = read_sweep(["lr=1e-3,3e-4", "seed=1..3"])
    assert sweep == {"lr": ["1e-3", "3e-4"], "seed": ["1", "2", "3"]}
    arms = arms_of(sweep)
    assert [(arm["lr"], arm["seed"]) for arm in arms] == [
        ("1e-3", "1"), ("1e-3", "2"), ("1e-3", "3"), ("3e-4", "1"), ("3e-4", "2"), ("3e-4", "3"),
    ]  # fmt: skip
    assert names_of("lr", len(arms), True) == [f"lr-{number}" for number in range(1, 7)]


def test_without_a_sweep_there_is_one_run_with_its_own_name() -> None:
    assert arms_of({}) == [{}]
    assert names_of("lr", 1, False) == ["lr"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=3..1", ["3", "2", "1"]),
        ("a=-1..1", ["-1", "0", "1"]),
        ("a=1, 2", ["1", "2"]),
        ("a=x=y", ["x=y"]),
        ("a=1...3", ["1...3"]),
        ("a=0.1..0.3", ["0.1..0.3"]),
    ],
)
def test_values(text: str, values: list[str]) -> None:
    assert read_sweep([text]) == {"a": values}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["1,2"], "--sweep 1,2: it has no name. Write it as"),
        (["a b=1"], "--sweep a b=1: it has no name."),
        (["a=1", "a=2"], "--sweep a=2: a is there twice."),
        (["a=1,,2"], "--sweep a=1,,2: a value is empty."),
        (["a=1,1"], "--sweep a=1,1: 1 is there twice."),
        (["a=1..999999999"], "--sweep a=1..999999999: it has more than 1000 values."),
    ],
)
def test_what_is_wrong(texts: list[str], words: str) -> None:
    with pytest.raises(SubmitError) as error:
        read_sweep(texts)
    assert str(error.value).startswith(words)


def test_too_many_combinations_are_refused_before_they_are_made() -> None:
    keys = {f"k{number}": [str(value) for value in range(100)] for number in range(20)}
    with pytest.raises(SubmitError, match="runs, over 1000"):
        arms_of(keys)


def test_only_places_of_the_sweep_are_filled() -> None:
    command = ["train.py", "--lr={lr}", '{"a": {lr}}', "{seed}", "{lr"]
    arm = {"lr": "{seed}"}
    assert with_values(command, arm) == [
        "train.py",
        "--lr={seed}",
        '{"a": {seed}}',
        "{seed}",
        "{lr",
    ]
    assert with_values(command, {}) == command
    assert unused(command, {"lr": ["1"], "seed": ["1"], "x": ["1"]}) == ["x"]
