"""What must be done for the declared accounts, and what stands in the way."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._accounts import (
    Account,
    Group,
    Host,
    User,
    declared_problems,
    host_problems,
    keys_content,
    plan,
    sudoers_content,
)


def an_ed25519_key(seed: int = 1, comment: str = "alice@laptop") -> str:
    kind = b"ssh-ed25519"
    blob = len(kind).to_bytes(4, "big") + kind + (32).to_bytes(4, "big") + bytes([seed]) * 32
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} {comment}"


KEY = an_ed25519_key()


def user(**changes: Any) -> User:
    return User.from_declared({"name": "alice", "uid": 2001, **changes})


def host(**changes: Any) -> Host:
    values: dict[str, Any] = {
        "accounts": {
            "root": Account(0, 0, "/root", "/bin/bash"),
            "ubuntu": Account(1000, 1000, "/home/ubuntu", "/bin/bash"),
        },
        "groups": {"root": Group(0), "ubuntu": Group(1000), "docker": Group(998)},
        "shells": frozenset({"/bin/bash"}),
    }
    return Host(**{**values, **changes})


def with_alice(
    account: Account | None = None, members: frozenset[str] = frozenset(), **changes: Any
) -> Host:
    """A host that has alice just as user() declares her."""
    base = host()
    declared = user()
    return host(
        accounts={
            **base.accounts,
            "alice": account or Account(2001, 2001, "/home/alice", "/bin/bash"),
        },
        groups={**base.groups, "alice": Group(2001), "docker": Group(998, members)},
        files={"/home/alice/.ssh/authorized_keys2": keys_content(declared)},
        **changes,
    )


def summaries(users: list[User], seen: Host, groups: dict[str, int] | None = None) -> list[str]:
    return [step.summary for step in plan(users, groups or {}, seen)]


def test_a_new_user_is_made_with_fixed_numbers_and_no_password() -> None:
    steps = plan([user(keys=[KEY], sudo="all", groups=["docker"])], {}, host())
    assert [step.summary for step in steps] == [
        "add group alice (2001)",
        "add user alice (2001)",
        "write /home/alice/.ssh/authorized_keys2",
        "write /etc/sudoers.d/tpu-fleet-alice",
    ]
    add = steps[1].argv
    assert add[add.index("--uid") + 1] == "2001"
    assert add[add.index("--gid") + 1] == "2001"
    assert add[add.index("--groups") + 1] == "docker"
    assert add[add.index("--password") + 1] == "*"


def test_a_host_as_declared_needs_nothing() -> None:
    assert summaries([user()], with_alice()) == []


@pytest.mark.parametrize(
    ("changes", "seen", "expected"),
    [
        (
            {"shell": "/bin/zsh"},
            with_alice(),
            ["change the shell of alice from /bin/bash to /bin/zsh"],
        ),
        ({"groups": ["docker"]}, with_alice(), ["add alice to group docker"]),
        ({}, with_alice(members=frozenset({"alice"})), []),
        ({"keys": [KEY]}, with_alice(), ["change /home/alice/.ssh/authorized_keys2"]),
        ({"sudo": ["/usr/bin/id"]}, with_alice(), ["write /etc/sudoers.d/tpu-fleet-alice"]),
        (
            {"home": "/data/alice"},
            with_alice(),
            ["move the home of alice from /home/alice to /data/alice"],
        ),
        (
            {"state": "absent"},
            with_alice(),
            [
                "remove /home/alice/.ssh/authorized_keys2",
                "remove user alice, keep /home/alice",
            ],
        ),
        ({"state": "absent"}, host(), []),
        (
            {"uid": 2005},
            with_alice(),
            [
                "renumber group alice from 2001 to 2005",
                "renumber user alice from 2001 to 2005",
                "give /home/alice the new numbers of alice",
            ],
        ),
    ],
)
def test_a_difference_is_one_step(changes: dict[str, Any], seen: Host, expected: list[str]) -> None:
    found = [
        summary
        for summary in summaries([user(**changes)], seen)
        if not summary.startswith("write /data/")
    ]
    assert found == expected


def test_membership_is_exact_in_declared_groups_only() -> None:
    seen = with_alice(members=frozenset({"alice"}))
    assert summaries([user()], seen, {"docker": 998}) == ["take alice out of group docker"]


def test_removing_with_the_home_says_so_to_userdel() -> None:
    steps = plan([user(state="absent", remove_home=True)], {}, with_alice())
    assert steps[-1].argv == ("userdel", "--remove", "alice")


def test_who_leaves_makes_room_for_who_comes() -> None:
    bob = User.from_declared({"name": "bob", "uid": 2001})
    users = [bob, user(state="absent")]
    assert host_problems(users, {}, with_alice()) == []
    assert summaries(users, with_alice())[1] == "remove user alice, keep /home/alice"


@pytest.mark.parametrize(
    ("users", "groups", "seen", "words"),
    [
        ([user(uid=1000, gid=2001)], {}, host(), ["uid = 1000", "user ubuntu"]),
        ([user(gid=998)], {}, host(), ["gid 998", "group docker"]),
        ([user()], {"research": 1000}, host(), ["research", "group ubuntu"]),
        ([user(**{"shell": "/bin/fish"})], {}, host(), ["shell", "/bin/fish"]),
        ([user(groups=["nope"])], {}, host(), ["groups", "nope", "user_accounts_groups"]),
        ([user(name="root")], {}, host(), ["root", "system account"]),
        (
            [user(uid=2005)],
            {},
            with_alice(processes={2001: (4711,)}),
            ["2005", "4711", "declare 2001"],
        ),
        ([user(state="absent")], {}, with_alice(processes={2001: (4711,)}), ["removed", "4711"]),
    ],
)
def test_a_clash_is_told_before_anything_is_done(
    users: list[User], groups: dict[str, int], seen: Host, words: list[str]
) -> None:
    problems = host_problems(users, groups, seen)
    assert problems
    for word in words:
        assert word in problems[0]


def test_all_clashes_are_told_at_once() -> None:
    users = [user(uid=1000, groups=["nope"], **{"shell": "/bin/fish"})]
    assert len(host_problems(users, {}, host())) >= 3


@pytest.mark.parametrize(
    ("sudo", "line"),
    [
        ("none", None),
        ([], None),
        ("all", "alice ALL=(ALL:ALL) NOPASSWD: ALL"),
        (
            ["/usr/bin/id", "/bin/ls /root"],
            "alice ALL=(ALL:ALL) NOPASSWD: /usr/bin/id, /bin/ls /root",
        ),
    ],
)
def test_sudo_rules(sudo: Any, line: str | None) -> None:
    content = sudoers_content(user(sudo=sudo))
    assert content is None if line is None else line in (content or "").splitlines()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "Alice!", "uid": 2001}, ["user_accounts_users[0].name", "Alice!"]),
        ({"name": "alice", "uid": 2001, "keys": ["ssh-ed25519 AAAA x"]}, ["keys[0]", "AAAA"]),
        ({"name": "alice", "uid": 12}, ["user_accounts_users[0].uid", "12"]),
        ({"name": "alice", "uid": 2001, "sudo": "yes"}, ["user_accounts_users[0].sudo", "yes"]),
    ],
)
def test_a_wrong_declaration_names_field_and_value(entry: dict[str, Any], words: list[str]) -> None:
    problems = declared_problems([entry], [])
    assert len(problems) == 1
    for word in words:
        assert word in problems[0]


def test_a_right_declaration_has_no_problem() -> None:
    entry = {"name": "alice", "uid": 2001, "gid": 2001, "home": "/data/alice", "keys": [KEY]}
    assert declared_problems([{**entry, "remove_home": True}], [{"name": "lab", "gid": 3000}]) == []
