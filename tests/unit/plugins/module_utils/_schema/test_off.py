"""Options of roles that are off by null."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import fleet_name
from ansible_collections.tpu.fleet.plugins.module_utils._schema.off import (
    OFF_BY_NULL,
    without_nulls,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.old_keys import NULL, OLD_WORDS
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.settings import settings_of
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    fleet_options,
    options_of,
)
from option_places import keys_of_the_fleet_file, options_of_roles
from role_templates import expression, variables_of

ROLES = options_of_roles()


def role_of(place: str) -> str:
    return "_".join(place.split("_")[:2])


@pytest.mark.parametrize("place", sorted(OFF_BY_NULL))
def test_what_is_off_by_null_is_on_by_default_and_says_so(place: str) -> None:
    # Those of a folder for checkpoints and of an archive follow from the run.
    of_runs = {"training_run_runs.archive", "training_run_runs.checkpoint_dir"}
    assert ROLES[place].get("default") or place in of_runs
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
    assert role_of(place) == "training_run"


# Choices among equals, of which each does something.
POLICIES = {
    # never switches them off, unmanaged leaves them to the distribution.
    "host_base_automatic_updates": ["never", "after_setup", "unmanaged"],
    # Ansible refuses null for an option that has choices and a default.
    "tpu_metrics_tpu_info": ["auto", "always", "never"],
}
OFF = {"none", "off", "never", "no", "disabled", "unlimited"}
# As descriptions say that a word, a number or an empty text is off.
SAYS_SO = re.compile(
    r"V\((none|off|never|-1|0)\) (dis|for|is|lets|leaves|with)|[Ww]ith V?\(?(none|-1|0)\b|"
    r"(?<!worker )\b0 (is|for|means)\b|when (it is )?empty|[Ii]f empty|"
    r"[Ee]mpty (for (no|the|uv)|takes|means)"
)
# What playbooks give, and templates make of nothing.
GIVEN = {
    "code_checkout_snapshot_dir",
    "dataset_key",
    "nfs_share_hosts.address",
    "nfs_share_hosts.zone",
    "python_env_index_url",
    "run_queue_key",
    "user_shell_people.dotfiles.install",
    "user_shell_people.dotfiles.subfolder",
}


def test_no_choice_of_a_role_is_a_word_for_off_but_null() -> None:
    choices = {place: option.get("choices", []) for place, option in ROLES.items()}
    assert {place: words for place, words in choices.items() if OFF & set(words)} == POLICIES


def test_no_key_of_the_fleet_file_has_a_word_for_off_but_null() -> None:
    keys = keys_of_the_fleet_file()
    found = {place for place, key in keys.items() if OFF & set(key.words)}
    assert found == {fleet_name(place) for place in POLICIES}


@pytest.mark.parametrize("place", sorted(ROLES))
def test_no_number_or_empty_text_is_off(place: str) -> None:
    option = ROLES[place]
    described = option["description"]
    described = described if isinstance(described, str) else " ".join(described)
    assert place in POLICIES or not SAYS_SO.search(described)
    assert option.get("default") not in (-1, "none", "off")
    assert option.get("default") != "" or place in GIVEN


@pytest.mark.parametrize("place", sorted(p for p, w in OLD_WORDS.items() if NULL in w.values()))
def test_an_old_word_for_off_is_refused_with_null(place: str) -> None:
    variable, _dot, key = place.partition(".")
    for word in OLD_WORDS[place]:
        value: Any = int(word) if word == "-1" else word
        data = {variable: [{key: value}] if key else value}
        found = [str(one) for one in check_fleet_file(data, role_keys(fleet_options()))]
        where = f"{variable}[0].{key}" if key else variable
        assert f"{where} = {value!r}: is how an earlier version wrote null. Write null." in found
        data = {variable: [{key: None}] if key else None}
        found = [str(one) for one in check_fleet_file(data, role_keys(fleet_options()))]
        assert not [text for text in found if text.startswith(where)]


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
