"""Sizes as people write them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.check import (
    check_fleet_file,
    role_keys,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.sizes import (
    MEMORIES,
    SIZES,
    bytes_in,
    for_systemd,
    in_unit,
    meant,
    remedy_for,
    text_of_size,
    units_in,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import fleet_options
from option_places import keys_of_the_fleet_file, options_of_roles


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1KiB", 1024),
        ("512MiB", 512 * 1024**2),
        ("20GiB", 20 * 1024**3),
        ("1TiB", 1024**4),
        ("0GiB", None),
        ("020GiB", None),
        ("-1GiB", None),
        ("1.5GiB", None),
        ("20", None),
        ("", None),
        ("20GB", None),
        ("20G", None),
        ("20 GiB", None),
        ("20gib", None),
        ("1GiB512MiB", None),
        ("1PiB", None),
        ("٣GiB", None),
        ("1GiB\n", None),
    ],
)
def test_what_is_a_size(text: str, found: int | None) -> None:
    assert bytes_in(text) == found


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (20, "Write it with its unit, as 20MiB or 20GiB"),
        ("20", "Write it with its unit, as 20MiB or 20GiB"),
        ("20GB", "Write 20GiB"),
        ("20 gb", "Write 20GiB"),
        ("20G", "Write 20GiB"),
        ("5mib", "Write 5MiB"),
        ("0GB", "Write 512MiB, 20GiB or 1TiB"),
        ("20kg", "Write 512MiB, 20GiB or 1TiB"),
        ("much", "Write 512MiB, 20GiB or 1TiB"),
        (0, "Write 512MiB, 20GiB or 1TiB"),
        (-1, "Write 512MiB, 20GiB or 1TiB"),
        (1.5, "Write 512MiB, 20GiB or 1TiB"),
        (True, "Write 512MiB, 20GiB or 1TiB"),
        (None, "Write 512MiB, 20GiB or 1TiB"),
    ],
)
def test_anything_else_is_refused_with_the_remedy(value: Any, remedy: str) -> None:
    assert remedy_for(value) == remedy
    with pytest.raises(ValueError, match=r"is not a size\.") as told:
        in_unit(value, "B")
    assert str(told.value).endswith(f"{remedy}.")


def test_a_size_is_a_whole_number_of_its_unit() -> None:
    assert in_unit("1TiB", "GiB") == 1024
    assert units_in("1536MiB", "GiB") is None
    with pytest.raises(ValueError, match=r"^'1536MiB' is not a whole number of GiB. Write it in"):
        in_unit("1536MiB", "GiB")


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (500, "GiB", "500GiB"),
        (2048, "GiB", "2TiB"),
        (1536, "MiB", "1536MiB"),
        (1024, "MiB", "1GiB"),
        (52428800, "B", "50MiB"),
        (1, "B", "1KiB"),
        (2049, "B", "3KiB"),
    ],
)
def test_an_old_number_becomes_a_size(amount: int, unit: str, text: str) -> None:
    assert text_of_size(amount, unit) == text
    assert bytes_in(text) is not None


@pytest.mark.parametrize(
    ("value", "found"), [("8GiB", "8G"), ("512MiB", "512M"), ("25%", "25%"), ("100%", "100%")]
)
def test_memory_as_systemd_writes_it(value: str, found: str) -> None:
    assert for_systemd(value) == found


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("8G", "Write 8GiB"),
        (8, "Write it with its unit, as 8MiB or 8GiB"),
        ("0%", "Write 8GiB or 25%"),
        ("101%", "Write 8GiB or 25%"),
        ("infinity", "Write 8GiB or 25%"),
    ],
)
def test_other_amounts_of_memory_are_refused(value: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=r"is not a size or share of memory\.") as told:
        for_systemd(value)
    assert str(told.value).endswith(f" {remedy}.")


def test_what_almost_is_a_size_means_one() -> None:
    assert (meant("8G"), meant("8GiB"), meant("8"), meant("25%")) == ("8GiB", "8GiB", None, None)


ROLES = options_of_roles()
UNIT = re.compile(r"(^|_)([kmgt]i?b|bytes?|(kilo|mega|giga|tera)bytes?)(_|$)")
# Words with which names of sizes end.
SIZE_NAME = re.compile(r"(^|_)(size|min_free)$")


@pytest.mark.parametrize("place", sorted({*SIZES, *MEMORIES}))
def test_a_size_is_an_option_whose_default_is_one(place: str) -> None:
    option = ROLES[place]
    assert option["type"] == "str"
    default = option.get("default")
    assert default is None or units_in(default, SIZES[place]) is not None


@pytest.mark.parametrize("place", sorted(ROLES))
def test_no_option_of_a_role_is_a_size_of_another_type(place: str) -> None:
    name, option = place.rpartition(".")[2], ROLES[place]
    assert not UNIT.search(name)
    assert bool(SIZE_NAME.search(name)) == (place in SIZES)
    assert ("memory" in name) == (place in MEMORIES)
    described = "".join(option.get("description", ""))
    assert not re.search(r"(?i)^(Bytes|(Mega|Giga)bytes)\b|\bin (bytes|[MG]i?B)\b", described)


def test_no_key_of_the_fleet_file_is_a_size_of_another_type() -> None:
    keys = keys_of_the_fleet_file()
    sizes = {place for place in keys if SIZE_NAME.search(place.rpartition(".")[2])}
    assert {place for place, key in keys.items() if key.type == "size"} == sizes
    assert not [place for place in keys if UNIT.search(place.rpartition(".")[2])]
    # Disks are created in GiB.
    assert keys["fleet_disks.size"].unit == keys["fleet_slices.boot_disk_size"].unit == "GiB"


def test_wrong_sizes_are_refused_all_at_once_with_field_value_and_remedy() -> None:
    data = {
        "fleet_disks": [{"name": "a", "size": 500}, {"name": "b", "size": "1025MiB"}],
        "fleet_slices": [{"name": "solo", "boot_disk_size": "200GB"}],
        "fleet_runs": [{"name": "r", "min_free": 1 << 30}],
        "fleet_boards": [{"name": "b", "memory_max": "8G"}],
        "fleet_journal_max_size": "500",
    }
    found = {str(one) for one in check_fleet_file(data, role_keys(fleet_options()))}
    assert {
        "fleet_disks[0].size = 500: is not a size. Write it with its unit, as 500MiB or 500GiB.",
        "fleet_disks[1].size = '1025MiB': is not a whole number of GiB. Write it in GiB.",
        "fleet_slices[0].boot_disk_size = '200GB': is not a size. Write 200GiB.",
        "fleet_runs[0].min_free = 1073741824: is not a size. Write it with its unit, as "
        "1073741824MiB or 1073741824GiB.",
        "fleet_boards[0].memory_max = '8G': is not a size or share of memory. Write 8GiB.",
        "fleet_journal_max_size = '500': is not a size. Write it with its unit, as 500MiB or "
        "500GiB.",
    } <= found
