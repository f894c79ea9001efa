"""Times that people write."""

from __future__ import annotations

import datetime
import time
from typing import Any

import click
import pytest

from tpu_fleet.commands.since import moment

CONTEXT = click.Context(click.Command("x"))
OPTION = click.Option(["--since"])


def since(value: str | None) -> Any:
    return moment(CONTEXT, OPTION, value)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("8h", 28_800)])
def test_a_duration_is_before_now(text: str, seconds: int) -> None:
    assert since(text) == pytest.approx(time.time() - seconds, abs=60)
    assert since(None) is None


def test_a_time_without_a_day_is_the_last_one() -> None:
    now = datetime.datetime.now().astimezone()
    for hours in (-2, 2):
        told = now + datetime.timedelta(hours=hours)
        found = since(f"{told:%H:%M}")
        assert 0 <= time.time() - found < 86_460
        at = datetime.datetime.fromtimestamp(found).astimezone()
        assert (at.hour, at.minute) == (told.hour, told.minute)


def test_a_date_is_its_begin() -> None:
    assert since("2026-11-20T08:00:00+00:00") == 1795161600.0
    assert since("2026-11-20") == datetime.datetime(2026, 11, 20).astimezone().timestamp()


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "25:00", "8", "8 h", ""])
def test_what_is_no_time_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(click.BadParameter, match="22:00"):
        since(text)
