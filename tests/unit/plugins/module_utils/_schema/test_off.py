"""Options of roles that are off by null."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.filter.role_plan import PLANS
from ansible_collections.tpu.fleet.plugins.module_utils._schema.off import (
    OFF_BY_NULL,
    without_nulls,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.settings import settings_of
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import options_of
from option_places import options_of_roles
from role_templates import expression, variables_of

ROLES = options_of_roles()


def role_of(place: str) -> str:
    return "_".join(place.split("_")[:2])


@pytest.mark.parametrize("place", sorted(OFF_BY_NULL))
def test_what_is_off_by_null_is_on_by_default_and_says_so(place: str) -> None:
    assert ROLES[place]["default"]
    assert "V(null)" in str(ROLES[place]["description"])


@pytest.mark.parametrize("place", sorted(ROLES))
def test_what_says_that_null_is_off_is_known_to_be(place: str) -> None:
    described = "V(null)" in str(ROLES[place]["description"])
    assert described == (place in OFF_BY_NULL or None in ROLES[place].get("choices", ()))


@pytest.mark.parametrize("place", sorted(one for one in OFF_BY_NULL if "." not in one))
def test_null_arrives_at_the_module_of_a_role(place: str) -> None:
    role = role_of(place)
    key = place.removeprefix(f"{role}_")
    assert settings_of(role, {place: None})["settings"][key] is None
    assert settings_of(role, {})["settings"][key] is not None
    variables = variables_of(role, {place: None, "hostvars": {}, "groups": {}})
    known = expression(f"'{role}' | tpu.fleet.role_settings", variables)
    assert known["settings"][key] is None


@pytest.mark.parametrize("place", sorted(one for one in OFF_BY_NULL if "." in one))
def test_keys_of_entries_that_are_off_by_null_are_in_plans(place: str) -> None:
    """A module would get an empty text."""
    assert role_of(place) in PLANS


def test_elsewhere_nothing_behind_the_colon_is_no_key() -> None:
    given = {
        "host_base_disk_guard_paths": [{"path": "/a/b", "min_age": None, "max_size": None}],
        "host_base_min_free": None,
        "host_base_time_zone": None,
    }
    assert without_nulls(options_of("host_base"), given) == {
        "host_base_disk_guard_paths": [{"path": "/a/b"}],
        "host_base_min_free": None,
    }
    settings = settings_of("host_base", given)["settings"]
    assert settings["time_zone"] == "Etc/UTC"
    (entry,) = settings["disk_guard_paths"]
    assert entry == {"path": "/a/b", "min_age": 86400, "max_size": None}
