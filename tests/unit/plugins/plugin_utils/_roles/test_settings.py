"""What the module of a role takes of the role's variables, by its argument specification."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._ansible.role_module import joined
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles import settings as role_settings
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.settings import (
    WrongSettingsError,
    settings_of,
)

OPTIONS: dict[str, dict[str, Any]] = {
    "r_count": {"type": "int", "default": 3},
    "r_folder": {"type": "path", "default": "/srv"},
    "r_token": {"type": "str", "no_log": True, "default": ""},
    "r_variables": {"type": "dict", "default": {}},
    "r_sets": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "owner": {"type": "str", "default": "root"},
            "login": {"type": "bool"},
            "values": {"type": "dict", "no_log": True},
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "path": {"type": "path", "required": True},
                    "content": {"type": "str", "no_log": True},
                },
            },
        },
    },
}
SET = {
    "name": "s",
    "values": {"a": "secret1"},
    "files": [{"path": "~/a", "content": "secret2"}, {"path": "/b"}],
}
PATHS = ["sets/0/files/0/content", "sets/0/values", "token"]


@pytest.fixture(autouse=True)
def options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role_settings, "options_of", {"r": OPTIONS}.__getitem__)


def test_each_option_has_its_name_its_type_and_its_default() -> None:
    given = {"r_count": "7", "r_sets": [{"name": 5, "login": "yes"}]}
    found = settings_of("r", given)
    assert found["settings"] == {
        "count": 7,
        "folder": "/srv",
        "token": None,
        "variables": {},
        "sets": [{"name": "5", "owner": "root", "login": True, "values": None, "files": []}],
    }
    assert given == {"r_count": "7", "r_sets": [{"name": 5, "login": "yes"}]}


def test_a_path_begins_at_the_home_of_the_machine_not_of_this_computer() -> None:
    found = settings_of("r", {"r_folder": "~/x", "r_sets": [SET]})["settings"]
    assert (found["folder"], found["sets"][0]["files"][0]["path"]) == ("~/x", "~/a")


def test_what_has_no_value_is_none_and_no_secret() -> None:
    given = {"r_variables": {"KEPT": None}, "r_sets": [{"name": "s"}]}
    found = settings_of("r", given)
    assert found["settings"]["variables"] == {"KEPT": None}
    assert found["settings"]["sets"][0]["login"] is None
    assert (found["settings"]["sets"][0]["values"], found["secrets"]) == (None, {"token": ""})


def test_secrets_are_apart_at_any_depth_and_come_back_to_their_places() -> None:
    found = settings_of("r", {"r_sets": [SET], "r_token": "secret3"})
    assert sorted(found["secrets"]) == PATHS
    assert "secret" not in str(found["settings"])
    whole = joined(found["settings"], found["secrets"])
    assert whole["token"] == "secret3"
    files = [SET["files"][0], {"path": "/b", "content": None}]  # type: ignore[index]
    assert whole["sets"] == [{**SET, "owner": "root", "login": None, "files": files}]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"r_count": "many"}, "r_count"),
        ({"r_sets": [{"name": "s", "login": "perhaps"}]}, "login"),
        ({"r_sets": [{"owner": "x"}]}, "name"),
        ({"r_sets": [{"name": "s", "other": 1}]}, "r_sets.other"),
    ],
)
def test_a_wrong_type_is_refused_by_the_name_that_was_written(
    given: dict[str, Any], named: str
) -> None:
    with pytest.raises(WrongSettingsError, match=named) as refused:
        settings_of("r", given)
    assert str(refused.value).count(named) == 1
