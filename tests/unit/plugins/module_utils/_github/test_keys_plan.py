# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the keys that we registered stay at GitHub."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._github.keys_plan import (
    Recorded,
    is_wanted,
    wanted_keys,
)

DECLARED = [{"name": "work", "users": ["alice", "bob"], "register": "user"}]


@pytest.mark.parametrize(
    ("user", "person", "wanted"),
    [
        ("bob", {}, True),
        ("bob", {"slices": ["solo"]}, True),
        ("bob", {"slices": ["pair"]}, False),
        ("bob", {"state": "absent"}, False),
        ("alice", {"slices": ["pair"]}, True),
        ("", {"slices": ["pair"]}, True),
    ],
)
def test_the_key_of_somebody_who_may_not_use_the_slice_goes(
    user: str, person: dict[str, Any], wanted: bool
) -> None:
    # A key that all users of a machine share has nobody's name.
    declared = DECLARED if user else [{**DECLARED[0], "source": "machine"}]
    key = Recorded(1, "title", "ssh-ed25519 AAAA", "user", "", "work", "solo", user)
    people = [{"name": "bob", **person}, {"name": "carol", "slices": ["pair"]}]
    assert is_wanted(key, declared, ["solo", "pair"], people) is wanted
    # A machine that was not configured since still has it, and it must not be added again.
    source = {} if user else {"source": "machine"}
    host = {
        "host": "solo",
        "slice": "solo",
        "users": {user or "bob": {"keys": {"work": {"public": "ssh-ed25519 AAAA"}}}},
    }
    assert bool(wanted_keys("lab", [{**DECLARED[0], **source}], [host], people)) is wanted


def test_a_worker_has_no_say_in_whose_keys_it_may_register() -> None:
    def registered(slice_name: str, user: str, **entry: Any) -> list[str]:
        declared = [{"name": "work", "users": ["alice"], "register": "user", **entry}]
        keys = {"keys": {"work": {"public": "ssh-ed25519 AAAA x"}}}
        hosts = [{"host": "w0", "slice": slice_name, "users": {user: keys}}]
        people = [{"name": "alice", "slices": ["trusted", "spot"]}]
        return [key.title for key in wanted_keys("lab", declared, hosts, people)]

    assert registered("trusted", "alice", slices=["trusted"]) == ["tpu-fleet lab: alice@w0 work"]
    assert registered("spot", "alice", slices=["trusted"]) == []
    assert registered("trusted", "ghost", slices=["trusted"]) == []
    assert registered("spot", "ghost", slices=["trusted"], source="machine") == []
    assert registered("spot", "alice", slices=["trusted"], source="shared") == []
