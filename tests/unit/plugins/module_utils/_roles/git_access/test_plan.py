"""What gives users their way to git servers."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access import plan as git
from ansible_collections.tpu.fleet.plugins.module_utils._roles.git_access.servers import (
    PUBLIC_HOSTS,
)

# SHA256 fingerprints as their owners publish them; servers.py says where.
FINGERPRINTS = {
    "github.com": {
        "ssh-ed25519": "+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
        "ecdsa-sha2-nistp256": "p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM",
        "ssh-rsa": "uNiVztksCsDhcc0u9e8BujQXVUpKZIDTMczCvj3tD2s",
    },
    "gitlab.com": {
        "ssh-ed25519": "eUXGGm1YGsMAS7vkcx6JOJdOGHPem5gQp4taiCfCLB8",
        "ecdsa-sha2-nistp256": "HbW3g8zUjNSksFbqTiUWPWg2Bq1x8xdGUrliXFzSnUw",
        "ssh-rsa": "ROQFvPThGrW4RuWLoL9tq9I9zJ42fK4XywyRtbOz/EQ",
    },
}


@pytest.mark.parametrize("name", sorted(PUBLIC_HOSTS))
def test_the_pinned_keys_have_the_published_fingerprints(name: str) -> None:
    seen = {}
    for key in PUBLIC_HOSTS[name]:
        kind, blob = key.split()
        digest = hashlib.sha256(base64.b64decode(blob)).digest()
        seen[kind] = base64.b64encode(digest).decode().rstrip("=")
    assert seen == FINGERPRINTS[name]


def key(**changes: Any) -> git.GitKey:
    return git.keys_of([{"name": "work", "users": ["alice"], **changes}])[0]


def test_a_declared_host_replaces_what_is_known() -> None:
    hosts = git.all_hosts([{"name": "github.com", "keys": ["ssh-ed25519 AAAA a comment"]}])
    assert "github.com ssh-ed25519 AAAA\ngitlab.com " in git.known_hosts(hosts)


def test_keys_come_before_hosts_and_each_user_has_only_theirs() -> None:
    text = git.ssh_config(git.all_hosts([]), [key(users=["alice", "bob"]), key(name="two")])
    blocks = text.split("\n\n")
    assert [block.splitlines()[0] for block in blocks[1:]] == [
        "Match originalhost github.com localuser alice",
        "Match originalhost github.com localuser bob",
        "Match originalhost github.com localuser alice",
        "Host github.com",
        "Host gitlab.com",
        "Match all",
    ]
    assert "    IdentityFile ~/.ssh/id_tpu_fleet_two\n    IdentitiesOnly yes" in blocks[3]


def test_a_key_of_several_people_is_for_those_who_are_here() -> None:
    declared = {"name": "work", "users": ["alice", "bob"]}
    (here,) = git.keys_of([declared], ["bob", "carol"])
    assert here.users == ("alice",)
    before = {"users": {"bob": {"keys": {"work": {}}, "settings": True}}}
    homes = {home.user: home for home in git.homes([here], [], before)}
    assert (homes["bob"].gone, homes["bob"].had_settings) == (("work",), True)
    assert set(git.recorded(homes.values(), {})["users"]) == {"alice"}


def test_a_deploy_key_has_a_name_of_its_own_for_the_server() -> None:
    deploy = key(register="deploy", repository="o/r")
    text = git.ssh_config(git.all_hosts([]), [deploy])
    assert "Match originalhost github.com--work localuser alice" in text
    block = next(b for b in text.split("\n\n") if b.startswith("Host github.com--work"))
    assert "HostName github.com\n" in block
    assert "HostKeyAlias github.com\n" in block
    settings = git.git_settings(None, [deploy])
    assert (
        '[url "git@github.com--work:o/r.git"]\n\tinsteadOf = "git@github.com:o/r.git"' in settings
    )


@pytest.mark.parametrize(
    ("option", "value", "lines"),
    [
        ("pull.rebase", True, '[pull]\n\trebase = "true"\n'),
        ("core.editor", 'vi "x"\\', '[core]\n\teditor = "vi \\"x\\"\\\\"\n'),
        ("a.b.c.d", "two\nlines", '[a "b.c"]\n\td = "two\\nlines"\n'),
    ],
)
def test_settings_are_quoted_as_git_reads_them(option: str, value: Any, lines: str) -> None:
    assert git.git_settings({"config": {option: value}}, []) == git.MANAGED + lines


def test_nobody_without_settings_gets_a_file() -> None:
    assert git.git_settings({"user": "alice"}, [key()]) == ""


@pytest.mark.parametrize("before", ["", "[user]\n\tname = A\n", "[user]"])
def test_including_twice_is_including_once_and_can_be_undone(before: str) -> None:
    once = git.with_include(before)
    assert git.with_include(once) == once
    assert git.without_include(once).strip() == before.strip()


def test_a_key_of_a_vault_is_mended() -> None:
    assert git.clean_private_key("\r\n-- B\r\nabc \r\n-- E") == "-- B\nabc\n-- E\n"


def test_users_that_are_not_declared_any_more_lose_what_was_made() -> None:
    record = {"users": {"bob": {"keys": {"old": {}}, "settings": True}, "alice": {"keys": {}}}}
    found = git.homes([key()], [], record)
    assert [(home.user, home.gone, home.had_settings) for home in found] == [
        ("alice", (), False),
        ("bob", ("old",), True),
    ]
    after = git.recorded(found, {"alice": {"work": "ssh-ed25519 AAAA"}})
    assert list(after["users"]) == ["alice"]
    assert "private" not in str(after)
