"""Durations as people write them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.durations import (
    DURATIONS,
    remedy_for,
    seconds,
    seconds_in,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options
from option_places import keys_of_the_fleet_file, options_of_roles


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("12h", 43200),
        ("2d", 172800),
        ("1h30m", 5400),
        ("1d1h1m1s", 90061),
        ("0s", 0),
        ("", None),
        ("90", None),
        ("-5s", None),
        ("1.5h", None),
        ("30m1h", None),
        ("1 h", None),
        ("2w", None),
        ("90S", None),
        ("٣s", None),
        ("9s\n", None),
    ],
)
def test_what_is_a_duration(text: str, found: int | None) -> None:
    assert seconds_in(text) == found


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (600, "Write 600s, or with another unit: 90s, 30m, 12h or 2d"),
        ("600", "Write 600s, or with another unit: 90s, 30m, 12h or 2d"),
        ("soon", "Write 90s, 30m, 12h or 2d"),
        (-1, "Write 90s, 30m, 12h or 2d"),
        (True, "Write 90s, 30m, 12h or 2d"),
        (None, "Write 90s, 30m, 12h or 2d"),
    ],
)
def test_anything_else_is_refused_with_the_remedy(value: Any, remedy: str) -> None:
    assert remedy_for(value) == remedy
    with pytest.raises(ValueError, match=r"is not a duration") as told:
        seconds(value)
    assert str(told.value).endswith(f"{remedy}.")


ROLES = options_of_roles()
UNIT = re.compile(r"(^|_)(secs?|seconds?|minutes?|hours?|days?|ms|millis)(_|$)")
# Words with which names of times end.
TIME = re.compile(
    r"(?<!^on_)(timeout|interval|ttl|_after|_before|_every|grace|_lead|_window|min_age|duration|valid_for)$"
)


@pytest.mark.parametrize("place", sorted(DURATIONS))
def test_a_duration_is_an_option_whose_default_is_one(place: str) -> None:
    option = ROLES[place]
    assert option["type"] == "str"
    assert "default" not in option or seconds_in(option["default"]) is not None


@pytest.mark.parametrize("place", sorted(ROLES))
def test_no_option_of_a_role_is_a_time_of_another_type(place: str) -> None:
    name, option = place.rpartition(".")[2], ROLES[place]
    assert not UNIT.search(name)
    assert bool(TIME.search(name)) == (place in DURATIONS)
    described = "".join(option.get("description", ""))
    assert not re.match(
        r"(Seconds|Minutes|Hours|Days|How many (seconds|minutes|days))\b", described
    )


def test_no_key_of_the_fleet_file_is_a_time_of_another_type() -> None:
    keys = keys_of_the_fleet_file()
    times = {place for place in keys if TIME.search(place.rpartition(".")[2])}
    assert {place for place, key in keys.items() if key.type == "duration"} == times
    units = {place for place in keys if UNIT.search(place.rpartition(".")[2])}
    # Rates.
    assert units == {"fleet_notify.per_hour", "fleet_prices.usd_per_chip_hour"}


def test_a_bare_number_is_refused_with_field_value_and_remedy() -> None:
    runs = [{"name": "a", "slices": ["solo"], "user": "root", "command": "x", "grace": 60}]
    data = {"fleet_runs": runs, "fleet_share_timeout": "30", "fleet_apply_every": "1day"}
    found = {str(one) for one in check_fleet_file(data, role_keys(fleet_options()))}
    assert {
        "fleet_runs[0].grace = 60: is not a duration. Write 60s, or with another unit: 90s, 30m, "
        "12h or 2d.",
        "fleet_share_timeout = '30': is not a duration. Write 30s, or with another unit: 90s, 30m, "
        "12h or 2d.",
        "fleet_apply_every = '1day': is not a duration. Write 90s, 30m, 12h or 2d.",
    } <= found
