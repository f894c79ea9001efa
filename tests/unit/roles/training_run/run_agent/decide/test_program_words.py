"""Steps, losses and numbers in what a program writes."""

from __future__ import annotations

import pytest
from run_agent.decide import program_words


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (b"", None),
        (b"loss 3\n", None),
        (b"step 3\nstep 4\nloss 2\n", 4),
        (b"Step: 5 of 9, step=6\n", 6),
        (b"step 7\rstep 8\r", 8),
        (b"x" * 600 + b"step 9\n", None),  # lines are not searched for ever
    ],
)
def test_the_step_in_a_log(text: bytes, step: int | None) -> None:
    pattern, error = program_words.compiled(r"step[ =:]+(\d+)")
    assert pattern is not None
    assert (program_words.last_step(text, pattern), error) == (step, "")


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (b"loss\n", None),
        (b"loss\nstep 3\nstep 4\n", 3),
        (b"step 7\rstep 8\r", 7),
        (b"x" * 600, None),
    ],
)
def test_the_first_step_in_a_log(text: bytes, step: int | None) -> None:
    pattern, _error = program_words.compiled(r"step[ =:]+(\d+)")
    assert pattern is not None
    assert program_words.first_step(text, pattern) == step


@pytest.mark.parametrize(("pattern", "word"), [("(", "step_pattern"), ("step", "one group")])
def test_a_pattern_that_is_none_is_said(pattern: str, word: str) -> None:
    made, error = program_words.compiled(pattern)
    assert made is None
    assert word in error


@pytest.mark.parametrize(
    ("text", "step"),
    [(b'{"step": 3}', 3), (b'{"step": true}', None), (b'{"step": "3"}', None), (b"[1", None)],
)
def test_what_a_program_says_itself(text: bytes, step: int | None) -> None:
    assert program_words.said(text) == step


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        (b'{"step": 3, "loss": 0.5}', 0.5),
        (b'{"loss": 7}', 7.0),
        (b'{"loss": NaN}', "nan"),
        (b'{"loss": -Infinity}', "-inf"),
        (b'{"loss": 1e300}', None),
        (b'{"loss": "0.5"}', None),
        (b'{"loss": true}', None),
        (b"[1", None),
    ],
)
def test_the_loss_that_a_program_says_itself(text: bytes, loss: program_words.Loss) -> None:
    assert program_words.said_loss(text) == loss


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        (b"step 1 loss 2.5\nstep 2 loss: 1.25e-1, lr 3\nsaved\n", 0.125),
        (b"{'loss': 0.75, 'eval_loss_x': 3}", 0.75),
        (b"train Loss=nan", "nan"),
        (b"glossy 3, lossless 4, loss of 5 %", None),
        (b"loss 1.2.3", None),
        (b"loss " + b"9" * 400, None),
        (b"x" * 600 + b" loss 3", None),
        (b"", None),
    ],
)
def test_the_loss_in_a_log(text: bytes, loss: program_words.Loss) -> None:
    assert program_words.last_loss(text) == loss


@pytest.mark.parametrize(
    ("newest", "at"),
    [
        (1_500_000_000, 1.5),
        (0, 0.0),
        (-1, None),
        (True, None),
        ("1", None),
        (10**30, None),
        ([1], None),
        (None, None),
    ],
)
def test_when_a_checkpoint_was_written(newest: object, at: float | None) -> None:
    assert program_words.saved_at(newest) == at


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (b'{"step": 3, "loss": 0.5, "lr": 1}', {"loss": 0.5, "lr": 1.0}),
        (b'{"loss": NaN, "a": Infinity, "b": true, "c": "1", "d": [1], "e": null}', {}),
        (b'{"<script>": 1, "x y": 2, "": 3, "train/loss": 4}', {"train/loss": 4.0}),
        (b'{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}', {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}),
        (b'{"a": 1' + b"0" * 400 + b"}", {}),
        (b"[1]", {}),
        (b"{", {}),
        (b"", {}),
    ],
)
def test_the_numbers_that_a_program_says(text: bytes, numbers: dict[str, float]) -> None:
    assert program_words.numbers(text) == numbers


@pytest.mark.parametrize("pattern", ["(", "(a){9999999999999}", "(?:" * 900 + "(a)" + ")" * 900])
def test_a_pattern_that_is_none_is_said_and_stops_nothing(pattern: str) -> None:
    made, why = program_words.compiled(pattern)
    assert made is None
    assert why.startswith("step_pattern ")


@pytest.mark.parametrize(
    ("name", "value", "figure"),
    [
        ("tokens_per_second", "1234", 1234.0),
        ("tokens_per_second", "-1", None),
        ("tokens_per_second", "1e16", None),
        ("mfu", "0.415", 0.415),
        ("mfu", "41.5", None),  # it is a share
        ("mfu", "NaN", None),
        ("mfu", "true", None),
        ("mfu", '"0.4"', None),
    ],
)
def test_what_a_program_says_of_its_speed(name: str, value: str, figure: float | None) -> None:
    wrote = f'{{"step": 3, "{name}": {value}}}'.encode()
    assert program_words.said_figure(wrote, name) == figure
    assert program_words.said_figure(b"x", name) is None
