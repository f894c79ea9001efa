"""Lasting troubles: logged when they begin and end, notified if they last. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Trouble:
    """A failure: since when, and how often in a row."""

    since: float
    text: str
    count: int = 1
    told: bool = False


@dataclass(frozen=True)
class Said:
    """The begin or end of a trouble: for the log, and for people if `tell`."""

    key: str
    text: str
    since: float
    over: bool = False
    tell: bool = False


Troubles = Mapping[str, Trouble]


def worse(
    troubles: Troubles, key: str, text: str, now: float, patience: float = 0.0
) -> tuple[Troubles, list[Said]]:
    """Record a trouble that begins or lasts; people are notified after a while."""
    old = troubles.get(key)
    new = replace(old, text=text, count=old.count + 1) if old else Trouble(now, text)
    said = []
    tell = not new.told and now - new.since >= patience
    if old is None or tell:
        said.append(Said(key, text, new.since, tell=tell))
    return {**troubles, key: replace(new, told=new.told or tell)}, said


def better(troubles: Troubles, key: str) -> tuple[Troubles, list[Said]]:
    """Record that something works; people who were notified of the trouble learn of its end."""
    old = troubles.get(key)
    if old is None:
        return troubles, []
    left = {other: trouble for other, trouble in troubles.items() if other != key}
    return left, [Said(key, old.text, old.since, over=True, tell=old.told)]


def pause(
    failures: int, first: float, most: float, chance: Callable[[], float] = random.random
) -> float:
    """Return the pause after a number of failures in a row: growing, with random variation."""
    if failures <= 0:
        return first
    return min(first * 2.0 ** min(failures - 1, 20), most) * (1.0 - 0.5 * chance())
