"""Format costs and the grant for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = "unknown"


def dollars(value: float | None, digits: int = 2) -> str:
    """Format an amount, which may be unknown."""
    if value is None:
        return UNKNOWN
    return f"${value:,.{digits}f}"


def per_hour(node: Mapping[str, Any]) -> str:
    """Format the hourly price of a node, and how much of it is billed."""
    full, billed = node["usd_per_hour"], node["usd_per_hour_billed"]
    text = dollars(full)
    if billed == 0:
        return f"{text}, free" if full != 0 else text
    return text if billed == full else f"{text}, {dollars(billed)} of it billed"


def idle_price(usd: float, billed: float) -> str:
    """Format what idle chips cost an hour, by list price and of that billed."""
    if not usd:
        return "price unknown"
    text = f"{dollars(usd)} an hour by list price"
    if not billed:
        return f"{text}, free by the grant"
    return text if billed == usd else f"{text}, {dollars(billed)} of it billed"


def time_left(entry: Mapping[str, Any]) -> str:
    """Format the end of an entry of the grant."""
    if entry["last_day"] is None:
        return "no end"
    if entry["over"]:
        return f"{entry['last_day']} (over)"
    return f"{entry['last_day']} ({days_left(entry['days_left'])})"


def days_left(days: int) -> str:
    """Format the whole days until an end."""
    return {0: "today", 1: "1 day left"}.get(days, f"{days} days left")


def total(nodes: Sequence[Mapping[str, Any]], key: str) -> str:
    """Format the sum of known amounts, and the number of unknown ones."""
    known = [node[key] for node in nodes if node[key] is not None]
    missing = len(nodes) - len(known)
    text = dollars(sum(known))
    return f"{text} and {missing} {UNKNOWN}" if missing else text


def amount_of(row: Mapping[str, Any]) -> str:
    """Format how much there is of something that costs."""
    if row["what"] == "addresses":
        return f"{row['amount']:g}"
    return f"{row['amount']:,.1f} GB"
