"""Old keys of entries are refused with the new one, all at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import AROUND
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.fleet import LISTS
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import QUEUE
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.self_setup import SELF_SETUP
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import Key
from ansible_collections.tpu.fleet.plugins.module_utils._schema.old_keys import (
    MOVED_KEYS,
    NULL,
    OLD_KEYS,
    OLD_WORDS,
    in_new_form,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options

ROLES = role_keys(fleet_options())
KEYS = {
    **{name: Key("list", options=keys) for name, keys in LISTS.items()},
    **AROUND,
    **SELF_SETUP,
    **QUEUE,
    **ROLES,
}
WORDS = [
    pytest.param(place, old, new, id=f"{place}.{old}")
    for place, renamed in OLD_KEYS.items()
    for old, new in renamed.items()
]


def options_at(place: str) -> Any:
    variable, *deeper = place.split(".")
    options = KEYS[variable].options
    for name in deeper:
        options = options[name].options
    return options


def around(place: str, entry: dict[str, Any]) -> tuple[str, Any]:
    """Return the variable with an entry at a place, each above it with nothing else."""
    variable, *deeper = place.split(".")
    levels = [KEYS[variable]]
    for name in deeper:
        levels.append(levels[-1].options[name])
    value: Any = entry
    for level, name in reversed([*zip(levels, ["", *deeper], strict=True)]):
        value = [value] if level.type == "list" else value
        value = {name: value} if name else value
    return variable, value


@pytest.mark.parametrize(("place", "old", "new"), WORDS)
def test_the_new_key_is_there_and_the_old_one_is_not(place: str, old: str, new: str) -> None:
    options = options_at(place)
    assert new.split(":")[0] in options
    assert old not in options


@pytest.mark.parametrize(("place", "old", "new"), WORDS)
def test_an_old_key_is_refused_with_the_new_one(place: str, old: str, new: str) -> None:
    variable, value = around(place, {old: 7})
    found = [str(one) for one in check_fleet_file({variable: value}, ROLES)]
    (told,) = [text for text in found if "is the key's old name" in text]
    assert told.split(" = ")[0].split(": ")[0].endswith(f".{old}")
    assert told.endswith(f"is the key's old name. Write {in_new_form(new, 7)}.")
    # What stands there under its old name is not missing, too.
    assert not [text for text in found if f".{new.split(':')[0]}: is missing" in text]


def test_all_are_refused_at_once_and_no_secret_is_shown() -> None:
    data = {
        "fleet_code": [{"name": "a", "owner": "root", "folder": "code"}],
        "fleet_secrets": [{"name": "s", "variables": {"TOKEN": "hush"}, "slices": "all"}],
    }
    found = [str(one) for one in check_fleet_file(data, ROLES)]
    assert "fleet_code[0].owner = 'root': is the key's old name. Write user." in found
    assert "fleet_code[0].folder = 'code': is the key's old name. Write local_path." in found
    assert "fleet_secrets[0].variables: is the key's old name. Write env." in found
    assert [text for text in found if text.startswith("fleet_secrets[0].slices")]
    assert "hush" not in " ".join(found)


@pytest.mark.parametrize("place", MOVED_KEYS)
def test_a_key_that_moved_is_refused_with_the_new_place(place: str) -> None:
    variable, key = place.split(".")
    found = check_fleet_file({variable: [{key: [{"source_disk": "d"}]}]}, ROLES)
    (told,) = [one for one in found if one.field == f"{variable}[0].{key}"]
    assert told.remedy == MOVED_KEYS[place]
    assert key not in options_at(variable)


@pytest.mark.parametrize(
    "place", [p for p, words in OLD_WORDS.items() if NULL not in words.values()]
)
def test_an_old_choice_is_refused_with_the_new_one(place: str) -> None:
    above, key = place.rsplit(".", 1)
    for old, new in OLD_WORDS[place].items():
        option = options_at(above)[key]
        assert new in option.choices
        assert old not in option.choices
        variable, value = around(above, {key: [old] if option.type == "list" else old})
        found = [str(one) for one in check_fleet_file({variable: value}, ROLES)]
        assert [text for text in found if text.endswith(f"Write {new}, its new name.")]


@pytest.mark.parametrize(("old", "new"), [(0, "null"), (-1, "null"), ("60", "60m"), (60, "60m")])
def test_a_number_gets_its_unit_and_what_was_off_is_null(old: Any, new: str) -> None:
    assert in_new_form("idle_after: {}m", old) == f"idle_after: {new}"
    assert in_new_form("user", old) == "user"


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        ("size: {}GiB", 500, "size: 500GiB"),
        ("size: {}GiB", "2048", "size: 2TiB"),
        ("cache_size: {}MiB", -1, "cache_size: null"),
        ("min_free: {}B", 1073741824, "min_free: 1GiB"),
        ("min_free: {}B", "{{ x }}", "min_free: {{ x }}B"),
    ],
)
def test_a_number_becomes_a_size(new: str, old: Any, text: str) -> None:
    assert in_new_form(new, old) == text


def test_no_role_or_playbook_selects_entries_by_an_old_key() -> None:
    old = {key for keys in OLD_KEYS.values() for key in keys}
    root = Path(__file__).resolve().parents[5]
    files = [
        path
        for folder in ("roles", "playbooks")
        for path in (root / folder).rglob("*")
        if path.suffix in (".yml", ".j2")
    ]
    used = re.compile(r"(?:(?:select|reject)attr\(|map\(attribute=)'(\w+)'")
    found = [(path, name) for path in files for name in used.findall(path.read_text())]
    assert len(found) > 20
    assert [(path, name) for path, name in found if name in old] == []
