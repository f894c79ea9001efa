"""Figures for people."""

from __future__ import annotations

import pytest

from tpu_fleet.show.figures import loss_text


@pytest.mark.parametrize(
    ("loss", "text"), [(None, "-"), ("nan", "nan"), (0.123456, "0.1235"), (1e29, "1e+29")]
)
def test_losses(loss: float | str | None, text: str) -> None:
    assert loss_text(loss) == text
