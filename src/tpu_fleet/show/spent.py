"""Say where the time of a run went."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long
from ansible_collections.tpu.fleet.plugins.module_utils._core.run_times import KINDS, PARTS

_LEAST = 0.0005
"""A share that is not worth a word."""
_WORDS = {"first_step": "the rest"}


def first_step_after(parts: Mapping[str, float]) -> float | None:
    """Return the seconds from the begin of an attempt to its first step; None if not known."""
    return sum(parts.values()) - parts.get("wait", 0.0) if parts else None


def start_text(parts: Mapping[str, float], counts: Mapping[str, int]) -> str:
    """Say how long a start took, and of what that consisted; empty if that is not known."""
    after = first_step_after(parts)
    if after is None:
        return ""
    said = [
        f"{_WORDS.get(name, name)} {_short(parts[name])}" for name in PARTS[1:] if name in parts
    ]
    if "compile" in parts and counts.get("programs"):
        at = next(number for number, text in enumerate(said) if text.startswith("compile"))
        said[at] += f" ({counts.get('hits', 0)} of {counts['programs']} programs from the cache)"
    waited = f", after a wait of {_short(parts['wait'])}" if parts.get("wait") else ""
    return f"first step after {_short(after)}{waited}: {', '.join(said)}"


def shares_text(seconds: Mapping[str, float]) -> str:
    """Say which share of a time each kind has, the largest first."""
    whole = sum(seconds.values())
    order = [*KINDS, *sorted(seconds.keys() - {*KINDS})]
    shares = [(seconds[name] / whole, name) for name in order if whole and name in seconds]
    shares = sorted(shares, key=lambda one: -one[0])
    return ", ".join(f"{name} {share * 100:.1f} %" for share, name in shares if share >= _LEAST)


def _short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else long(seconds)
