"""What the fleet file may not say of users and groups."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.user_accounts.rules import (
    check_user_accounts,
)

SLICES = [{"name": "solo"}, {"name": "pair"}]


def fleet(*users: dict[str, Any], **others: Any) -> dict[str, Any]:
    declared = [{"uid": 2001 + index, **entry} for index, entry in enumerate(users)]
    return {"fleet_slices": SLICES, "fleet_users": declared, **others}


ALICE = {"name": "alice"}
GONE = {"name": "alice", "state": "absent"}
RUN = {"name": "digits", "user": "alice", "slices": ["pair"]}


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        (fleet({"name": "Alice!"}), "users[0].name", ["a-z"]),
        (fleet(ALICE, ALICE), "users[1].name", ["twice"]),
        (fleet({**ALICE, "uid": 12}), "users[0].uid", ["1000"]),
        (fleet({**ALICE, "gid": 70000}), "users[0].gid", ["60000"]),
        (fleet({**ALICE, "keys": ["ssh-ed25519 AAAA x"]}), "users[0].keys[0]", ["cut"]),
        (fleet({**ALICE, "sudo": "yes"}), "users[0].sudo", ["null, all"]),
        (fleet({**ALICE, "sudo": ["ls"]}), "users[0].sudo[0]", ["whole path"]),
        (fleet({**ALICE, "sudo": ["/bin/ls\nALL"]}), "users[0].sudo[0]", ["one line"]),
        (fleet({**ALICE, "shell": "zsh"}), "users[0].shell", ["whole path"]),
        (
            fleet({**ALICE, "home_permissions": "0777"}),
            "users[0].home_permissions",
            ["0750", "0700"],
        ),
        (
            fleet({**ALICE, "home_permissions": "0644"}),
            "users[0].home_permissions",
            ["permissions of a home"],
        ),
        (fleet({**ALICE, "home": "/home"}), "users[0].home", ["/home/alice"]),
        (fleet({**ALICE, "home": "/"}), "users[0].home", ["cannot be"]),
        (fleet({**ALICE, "home": "/home/alice/"}), "users[0].home", ["slash"]),
        (fleet({**ALICE, "home": "/home/../etc"}), "users[0].home", ["cannot be"]),
        (fleet({**ALICE, "slices": ["pear"]}), "users[0].slices[0]", ["Did you mean pair"]),
        (fleet(ALICE, {"name": "bob", "gid": 2001}), "users[1].gid", ["another user's"]),
        (
            fleet(ALICE, fleet_groups=[{"name": "lab", "gid": 2001}]),
            "groups[0].gid",
            ["own group"],
        ),
        (
            fleet(ALICE, fleet_groups=[{"name": "alice", "gid": 3000}]),
            "groups[0].name",
            ["own group of fleet_users[0]"],
        ),
        (fleet({"name": "ubuntu", "state": "absent"}, fleet_ssh_user="ubuntu"), "state", ["logs"]),
        (fleet({"name": "ubuntu", "slices": ["solo"]}, fleet_ssh_user="ubuntu"), "slices", ["log"]),
        (fleet(GONE, fleet_runs=[RUN]), "fleet_runs[0].user", ["state: absent"]),
        (
            fleet(GONE, fleet_venvs=[{"user": "alice"}]),
            "fleet_venvs[0].user",
            ["state: absent"],
        ),
        (
            fleet({**ALICE, "slices": ["solo"]}, fleet_runs=[RUN]),
            "fleet_runs[0].user",
            ["slice pair"],
        ),
    ],
)
def test_one_problem_names_field_and_remedy(
    data: dict[str, Any], field: str, words: list[str]
) -> None:
    problems = check_user_accounts(data)
    assert len(problems) == 1, problems
    assert problems[0].field.endswith(field)
    for word in words:
        assert word in str(problems[0])


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"fleet_users": "alice"},
        fleet({**ALICE, "home": "/data/alice", "slices": ["pair"]}, fleet_runs=[RUN]),
        # A role of its own has no slices to compare with.
        {"fleet_users": [{"name": "alice", "uid": 2001, "slices": ["anything"]}]},
        fleet(ALICE, fleet_groups=[{"name": "lab", "gid": 3000}]),
        # Who goes may have had the number of who comes.
        fleet(GONE, {"name": "bob", "gid": 2001}),
    ],
)
def test_what_is_right_has_no_problem(data: dict[str, Any]) -> None:
    assert check_user_accounts(data) == []


def test_a_private_key_is_not_shown() -> None:
    data = fleet({**ALICE, "keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]})
    assert "BEGIN" not in str(check_user_accounts(data)[0])
