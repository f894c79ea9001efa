"""What the guest agent does with the metadata."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tpu_local_cloud.machines.guest.accounts import authorized_keys, expired, wanted_keys
from tpu_local_cloud.machines.guest.agent import address_changes, external_ip, host_keys

NOW = datetime(2026, 5, 1, tzinfo=UTC)
GOOGLE = 'ecdsa-sha2-nistp256 AAAA google-ssh {"userName":"a@example.com","expireOn":"%s"}'


@pytest.mark.parametrize(
    ("key", "gone"),
    [
        ("ssh-ed25519 AAAA", False),
        ("ssh-ed25519 AAAA me@home", False),
        (GOOGLE % "2026-05-02T00:00:00+0000", False),
        (GOOGLE % "2026-04-30T23:59:59+0000", True),
        (GOOGLE % "2026-05-01T01:00:00+0200", True),
        ("ssh-ed25519 AAAA google-ssh {broken", True),
        ('ssh-ed25519 AAAA google-ssh {"userName":"a"}', True),
    ],
)
def test_keys_expire(key: str, gone: bool) -> None:
    assert expired(key, NOW) is gone


def test_keys_of_node_and_project_are_joined() -> None:
    instance = {"ssh-keys": "alice:ssh-ed25519 A1\nbob:ssh-rsa B1 bob@x\n\n  \nnonsense"}
    project = {"ssh-keys": "alice:ssh-ed25519 A2\nalice:ssh-ed25519 A1"}
    assert wanted_keys(instance, project, NOW) == {
        "alice": ["ssh-ed25519 A1", "ssh-ed25519 A2"],
        "bob": ["ssh-rsa B1 bob@x"],
    }
    blocked = {**instance, "block-project-ssh-keys": "TRUE"}
    assert wanted_keys(blocked, project, NOW)["alice"] == ["ssh-ed25519 A1"]


@pytest.mark.parametrize("user", ["", "-x", "Alice", "a;b", "../x", "x" * 33])
def test_a_name_that_is_no_user_is_left_out(user: str) -> None:
    assert wanted_keys({"ssh-keys": f"{user}:ssh-ed25519 A"}, {}, NOW) == {}


def test_only_marked_lines_are_replaced() -> None:
    own = "ssh-ed25519 MINE me\n"
    once = authorized_keys(own, ["ssh-ed25519 A1", "ssh-ed25519 A2"])
    assert once == (
        "ssh-ed25519 MINE me\n"
        "# Added by Google\nssh-ed25519 A1\n"
        "# Added by Google\nssh-ed25519 A2\n"
    )
    assert authorized_keys(once, ["ssh-ed25519 A1", "ssh-ed25519 A2"]) == once
    assert authorized_keys(once, []) == own


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({}, ""),
        ({"instance": {"networkInterfaces": []}}, ""),
        ({"instance": {"networkInterfaces": [{"accessConfigs": []}]}}, ""),
        (
            {"instance": {"networkInterfaces": [{"accessConfigs": [{"externalIp": "1.2.3.4"}]}]}},
            "1.2.3.4",
        ),
    ],
)
def test_external_ip(tree: dict[str, object], expected: str) -> None:
    assert external_ip(tree) == expected


def test_address_changes() -> None:
    assert address_changes([], "1.1.1.1") == [["add", "1.1.1.1/32", "dev", "lo"]]
    assert address_changes(["1.1.1.1"], "1.1.1.1") == []
    assert address_changes(["1.1.1.1"], "") == [["del", "1.1.1.1/32", "dev", "lo"]]
    assert len(address_changes(["1.1.1.1"], "2.2.2.2")) == 2


def test_host_keys(tmp_path: Path) -> None:
    (tmp_path / "ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAA root@t1v\n")
    (tmp_path / "ssh_host_rsa_key").write_text("private")
    (tmp_path / "ssh_host_rsa_key.pub").write_text("")
    assert host_keys(tmp_path) == {"ssh-ed25519": "AAAA"}
