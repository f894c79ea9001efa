"""Format figures for people."""

from __future__ import annotations


def loss_text(value: float | str | None) -> str:
    """Format a loss, which is a number, or a word where there is none: nan, inf."""
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}"
