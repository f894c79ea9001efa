"""Figures for people."""

from __future__ import annotations

import pytest

from tpu_fleet.show.figures import amount, loss_text, rate_text, share_text, size, speed_text


@pytest.mark.parametrize(
    ("loss", "text"), [(None, "-"), ("nan", "nan"), (0.123456, "0.1235"), (1e29, "1e+29")]
)
def test_losses(loss: float | str | None, text: str) -> None:
    assert loss_text(loss) == text


@pytest.mark.parametrize(
    ("speed", "text"),
    [(None, "-"), (12.345, "12.3/s"), (4321, "4321/s"), (0.5, "30/m"), (0.001, "3.6/h")],
)
def test_speeds(speed: float | None, text: str) -> None:
    assert speed_text(speed) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 steps"), (1, "1 step"), (851, "851 steps"), (1076, "1,076 steps")]
)
def test_one_of_a_thing_is_no_plural(value: int, text: str) -> None:
    assert amount(value, "step") == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"), (1, "1 byte"), (812, "812 bytes"), (2048, "2.0 KiB"), (3 << 20, "3.0 MiB"),
        (5 << 30, "5.0 GiB"), (1500 << 40, "1,500.0 TiB"), (1 << 60, "1,048,576.0 TiB"),
    ],
)  # fmt: skip
def test_bytes_are_shown_in_short(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (12.34, "12.3"),
        (999.4, "999"),
        (999.6, "1k"),
        (1_234_000.0, "1.23M"),
        (999.6e9, "1T"),
        (1e15, "1e+03T"),
    ],
)
def test_tokens_a_second(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text
    assert len(text) <= 6


@pytest.mark.parametrize(
    ("share", "text"), [(None, "-"), (0.0, "0%"), (0.415, "42%"), (1.0, "100%")]
)
def test_shares(share: float | None, text: str) -> None:
    assert share_text(share) == text
