"""Troubles are logged once, sent when they stay, and their end goes to the same receivers."""

from __future__ import annotations

import pytest

from tpu_fleet.watch.trouble import Troubles, better, pause, worse


def test_said_once_told_after_a_while_and_over() -> None:
    troubles: Troubles = {}
    heard = []
    for now in range(0, 700, 100):
        troubles, said = worse(troubles, "api", f"503 at {now}", float(now), patience=300.0)
        heard += [(now, one.tell, one.over) for one in said]
    assert heard == [(0, False, False), (300, True, False)]
    assert (troubles["api"].count, troubles["api"].text) == (7, "503 at 600")
    troubles, said = better(troubles, "api")
    assert [(one.over, one.tell, one.since) for one in said] == [(True, True, 0.0)]
    assert better(troubles, "api") == ({}, [])


def test_what_nobody_heard_of_ends_in_silence() -> None:
    troubles, _said = worse({}, "api", "503", 0.0, patience=300.0)
    _troubles, said = better(troubles, "api")
    assert [(one.over, one.tell) for one in said] == [(True, False)]


def test_credentials_are_told_at_once_and_once() -> None:
    troubles, said = worse({}, "credentials", "401", 0.0)
    assert [one.tell for one in said] == [True]
    _troubles, said = worse(troubles, "credentials", "401", 9.0)
    assert said == []


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 30.0), (1, 30.0), (2, 60.0), (3, 120.0), (6, 600.0), (99, 600.0)]
)
def test_pauses_grow_to_a_limit_and_are_never_in_step(failures: int, seconds: float) -> None:
    assert pause(failures, 30.0, 600.0, chance=lambda: 0.0) == seconds
    if failures:
        assert pause(failures, 30.0, 600.0, chance=lambda: 1.0) == seconds / 2
