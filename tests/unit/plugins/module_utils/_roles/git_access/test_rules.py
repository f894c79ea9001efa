"""Rules for git keys, identities and servers in the fleet file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access.rules import (
    check_git_access,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"
FLEET: dict[str, Any] = {
    "fleet_ssh_user": "ubuntu",
    "fleet_slices": [{"name": "solo"}],
    "fleet_users": [{"name": "alice", "uid": 2001}],
}


def problems(**variables: Any) -> list[str]:
    return [
        str(problem)
        for problem in check_git_access(
            {**FLEET, **{f"fleet_git_{name}": value for name, value in variables.items()}}
        )
    ]


def test_a_good_one_has_no_problems() -> None:
    assert not problems(
        hosts=[{"name": "git.lab.example", "port": 2222, "keys": [KEY]}],
        keys=[
            {"name": "work", "users": ["alice", "ubuntu", "root"], "slices": ["solo"]},
            {"name": "own", "users": ["alice"], "host": "git.lab.example"},
            {"name": "lab", "users": ["alice"], "source": "shared", "private_key": PRIVATE},
            {"name": "d", "users": ["alice"], "register": "deploy", "repository": "o/r"},
        ],
        identities=[{"user": "alice", "name": "A", "config": {"url.https://x.y/.insteadOf": "x:"}}],
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "My Key"}, "fleet_git_keys[0].name = 'My Key': is not a name for a key."),
        ({"users": ["alcie"]}, "fleet_git_keys[0].users[0] = 'alcie': is not a user of this"),
        ({"slices": ["sola"]}, "fleet_git_keys[0].slices[0] = 'sola': is not a slice"),
        ({"source": "shared"}, "fleet_git_keys[0].private_key: is missing. Set it from a vault"),
        ({"private_key": PRIVATE}, "fleet_git_keys[0].source: does not use private_key."),
        (
            {"source": "shared", "private_key": "secret"},
            "fleet_git_keys[0].private_key: is not a private key.",
        ),
        ({"register": "deploy"}, "fleet_git_keys[0].repository: is not a repository."),
        (
            {"register": "deploy", "repository": "r"},
            "fleet_git_keys[0].repository = 'r': is not a repository.",
        ),
        ({"repository": "o/r"}, "fleet_git_keys[0].repository = 'o/r': needs register: deploy"),
        ({"host": "gitlab.co"}, "fleet_git_keys[0].host = 'gitlab.co': is not a known git server"),
    ],
)
def test_what_is_wrong_with_a_key(entry: dict[str, Any], message: str) -> None:
    found = problems(keys=[{"name": "work", "users": ["alice"], **entry}])
    assert len(found) == 1
    assert found[0].startswith(message)
    assert "secret" not in found[0]


@pytest.mark.parametrize(
    ("variables", "field"),
    [
        ({"identities": [{"user": "bob"}]}, "fleet_git_identities[0].user"),
        ({"identities": [{"user": "alice", "email": "<a@b>"}]}, "fleet_git_identities[0].email"),
        (
            {"identities": [{"user": "alice", "config": {"pull": 1}}]},
            "fleet_git_identities[0].config.pull",
        ),
        (
            {"identities": [{"user": "alice", "safe_directories": ["srv"]}]},
            "fleet_git_identities[0].safe_directories[0]",
        ),
        ({"identities": [{"user": "alice"}] * 2}, "fleet_git_identities[1].user"),
        ({"hosts": [{"name": "a:22", "keys": [KEY]}]}, "fleet_git_hosts[0].name"),
        ({"hosts": [{"name": "a", "port": 0, "keys": [KEY]}]}, "fleet_git_hosts[0].port"),
        ({"hosts": [{"name": "a", "keys": []}]}, "fleet_git_hosts[0].keys"),
        ({"hosts": [{"name": "a", "keys": ["AAAA"]}]}, "fleet_git_hosts[0].keys[0]"),
        ({"keys": [{"name": "a", "users": []}] * 2}, "fleet_git_keys[1].name"),
    ],
)
def test_what_is_wrong_elsewhere(variables: dict[str, Any], field: str) -> None:
    found = problems(**variables)
    assert len(found) == 1
    assert found[0].startswith(field)
