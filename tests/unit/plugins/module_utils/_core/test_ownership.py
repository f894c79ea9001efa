"""The owner of a thing, by its description."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import (
    owner_in,
    with_owner,
    without_owner,
)


@pytest.mark.parametrize(
    ("before", "owner", "after"),
    [
        ("", None, "[tpu-fleet: managed]"),
        ("Mosh", "alice", "Mosh [tpu-fleet: alice]"),
        ("Mosh [tpu-fleet: bob]", "alice", "Mosh [tpu-fleet: alice]"),
    ],
)
def test_a_description_names_its_owner_once(before: str, owner: str | None, after: str) -> None:
    assert with_owner(before, owner) == after
    assert owner_in(after) == (owner or "managed")
    assert without_owner(after) == without_owner(before)


@pytest.mark.parametrize(
    "text", ["", "tpu-fleet", "[tpu-fleet]", "[tpu-fleet: ]", "[tpu-fleet: A]"]
)
def test_other_descriptions_name_none(text: str) -> None:
    assert owner_in(text) is None
