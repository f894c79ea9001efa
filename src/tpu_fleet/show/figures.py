"""Format figures for people."""

from __future__ import annotations

WIDEST_LOSS = 8
"""Characters of a loss."""


def digits_in(value: float, width: int, most: int = 4) -> str:
    """Format a number with as many digits as fit; its exponent is never cut off."""
    texts = (f"{value:.{digits}g}" for digits in range(most, 0, -1))
    return next((text for text in texts if len(text) <= width), f"{value:.0e}")


def amount(count: int, thing: str) -> str:
    """Format a number of things, which may be one."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Format a number of bytes."""
    if count < 1024:
        return amount(count, "byte")
    units = ("KiB", "MiB", "GiB", "TiB")
    power = min((count.bit_length() - 1) // 10, len(units))
    return f"{count / (1 << 10 * power):,.1f} {units[power - 1]}"


def loss_text(value: float | str | None) -> str:
    """Format a loss, which is a number, or a word where there is none: nan, inf."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else digits_in(value, WIDEST_LOSS)


def percent_text(value: float | None) -> str:
    """Format a number of percent."""
    return "-" if value is None else f"{value:.0f}%"


def share_text(share: float | None) -> str:
    """Format a share from 0 to 1 as percent."""
    return percent_text(None if share is None else share * 100)


def rate_text(rate: float | None) -> str:
    """Format how many tokens a second, in at most six characters."""
    if rate is None:
        return "-"
    power = next((p for p in range(4) if rate < 999.5 * 1000**p), 4)
    return digits_in(rate / 1000**power, 5, most=3) + ("", "k", "M", "G", "T")[power]


def speed_text(speed: float | None) -> str:
    """Format a speed, given in steps a second."""
    if speed is None:
        return "-"
    factor, unit = next(
        ((factor, unit) for factor, unit in ((1, "s"), (60, "m")) if speed * factor >= 1),
        (3600, "h"),
    )
    value = speed * factor
    whole = 1e3 <= value < 1e5
    return f"{value:.0f}/{unit}" if whole else f"{digits_in(value, 5, most=3)}/{unit}"
