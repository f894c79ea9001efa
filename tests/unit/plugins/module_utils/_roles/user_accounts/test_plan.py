"""What must be done for the declared accounts, and what stands in the way."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.user_accounts.look import (
    settings_problems,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.user_accounts.plan import (
    TMPFILES,
    Account,
    Group,
    Home,
    Host,
    Process,
    Step,
    User,
    declared_problems,
    dropped,
    host_problems,
    keys_content,
    passing_warnings,
    plan,
    record_of,
    sudoers_content,
    tmpfiles_content,
    warnings,
)


def an_ed25519_key(seed: int = 1, comment: str = "alice@laptop") -> str:
    kind = b"ssh-ed25519"
    blob = len(kind).to_bytes(4, "big") + kind + (32).to_bytes(4, "big") + bytes([seed]) * 32
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} {comment}"


KEY = an_ed25519_key()


# One that is not the session's own.
BUSY = {2001: (Process(4711, "python"),)}


def user(**changes: Any) -> User:
    return User.from_declared({"name": "alice", "uid": 2001, **changes}, "pair")


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
    values: dict[str, Any] = {
        "accounts": {
            **base.accounts,
            "alice": account or Account(2001, 2001, "/home/alice", "/bin/bash"),
        },
        "groups": {**base.groups, "alice": Group(2001), "docker": Group(998, members)},
        "files": {
            "/home/alice/.ssh/authorized_keys2": keys_content(user()),
            TMPFILES: str(tmpfiles_content([user()], base)),
        },
        "tmux_owners": frozenset({2001}),
        "homes": {"/home/alice": Home(uid=2001)},
    }
    return host(**{**values, **changes})


def summaries(users: list[User], seen: Host, groups: dict[str, int] | None = None) -> list[str]:
    return [step.summary for step in planned(users, seen, groups)]


def planned(users: list[User], seen: Host, groups: dict[str, int] | None = None) -> list[Step]:
    """Return the steps, without those of names in /tmp, which have a test of their own."""
    steps = plan(users, groups or {}, seen)
    return [step for step in steps if step.path != TMPFILES and step.work != "take"]


def test_each_user_has_the_folder_of_tmux_before_another_user_takes_the_name() -> None:
    def steps(users: list[User], seen: Host) -> list[tuple[str, str | None]]:
        found = plan(users, {}, seen)
        return [
            (step.summary, step.content)
            for step in found
            if step.path == TMPFILES or step.work == "take"
        ]

    bob = User.from_declared({"name": "bob", "uid": 2002, "gid": 2102}, "pair")
    line = "d /tmp/tmux-2001 0700 2001 2001 - -\n"
    head = "# Managed by tpu.fleet: another user could take these names first.\n"
    assert steps([user(), bob], host()) == [
        ("make /tmp/tmux-2001", None),
        ("make /tmp/tmux-2002", None),
        (f"write {TMPFILES}", f"{head}{line}d /tmp/tmux-2002 0700 2002 2102 - -\n"),
    ]
    assert steps([user()], with_alice()) == []
    # Another user has the name, or alice has another number.
    assert steps([user()], with_alice(tmux_owners=frozenset())) == [("make /tmp/tmux-2001", None)]
    assert [one for one, _text in steps([user(uid=2005)], with_alice())] == [
        "make /tmp/tmux-2005",
        f"change {TMPFILES}",
    ]
    # The runs of a locked user continue; who is removed leaves nothing.
    assert steps([user(slices=["other"])], with_alice()) == []
    assert steps([user(state="absent")], with_alice()) == [(f"remove {TMPFILES}", None)]


def test_a_new_user_is_made_with_fixed_numbers_and_no_password() -> None:
    steps = planned([user(keys=[KEY], sudo="all", groups=["docker"])], host())
    assert [step.summary for step in steps] == [
        "add group alice (2001)",
        "add user alice (2001)",
        "give /home/alice the mode 0750",
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
    assert summaries([user()], seen, {"docker": 998}) == ["remove alice from group docker"]


@pytest.mark.parametrize(
    ("mode", "seen", "expected"),
    [
        ("keep", with_alice(), ["remove user alice, keep /home/alice"]),
        ("delete", with_alice(), ["remove user alice", "delete /home/alice"]),
        (
            "archive",
            with_alice(),
            ["remove user alice", "archive /home/alice", "delete /home/alice"],
        ),
        # A run that broke off after the account was gone, or a home kept at an earlier time.
        (
            "archive",
            host(homes={"/home/alice": Home(uid=2001)}),
            ["archive /home/alice", "delete /home/alice"],
        ),
        ("archive", host(homes={"/home/alice": Home(uid=2002)}), []),
        ("delete", host(homes={"/home/alice": Home(kind="other", uid=2001)}), []),
        ("archive", host(), []),
        # Only what systemd keeps for a session that is over.
        (
            "keep",
            with_alice(processes={2001: (Process(5, "systemd"), Process(6, "(sd-pam)"))}),
            ["end the idle session of alice", "remove user alice, keep /home/alice"],
        ),
    ],
)
def test_what_becomes_of_the_home_is_as_declared(
    mode: str, seen: Host, expected: list[str]
) -> None:
    users = [user(state="absent", home_on_removal=mode)]
    assert host_problems(users, {}, seen) == []
    steps = [step for step in planned(users, seen) if "authorized_keys2" not in step.summary]
    assert [step.summary for step in steps] == expected
    assert not any("--remove" in step.argv for step in steps)


@pytest.mark.parametrize(
    ("entry", "fate"),
    [
        ({}, "present"),
        ({"slices": []}, "present"),
        ({"slices": ["pair"]}, "present"),
        ({"slices": ["solo"]}, "locked"),
        ({"slices": ["solo"], "unassigned": "remove"}, "absent"),
        ({"slices": ["solo"], "state": "absent"}, "absent"),
        ({"slices": ["pair"], "unassigned": "remove"}, "present"),
    ],
)
def test_what_a_user_is_on_a_slice(entry: dict[str, Any], fate: str) -> None:
    assert user(**entry).fate == fate


def test_a_locked_user_loses_every_way_in_and_nothing_else() -> None:
    seen = with_alice(
        files={
            "/home/alice/.ssh/authorized_keys2": keys_content(user()),
            "/etc/sudoers.d/tpu-fleet-alice": "x",
        },
        processes=BUSY,
        runs={"alice": ("digits",)},
    )
    locked = user(slices=["solo"])
    assert host_problems([locked], {}, seen) == []
    assert summaries([locked], seen) == [
        "lock alice out, keep /home/alice",
        "remove /etc/sudoers.d/tpu-fleet-alice",
        "remove /home/alice/.ssh/authorized_keys2",
    ]
    told = passing_warnings([locked], seen)
    assert "4711 python" in told[0]
    assert "digits" in told[0]
    # Process numbers differ each time: what is recorded must not.
    assert warnings([locked], seen) == []
    assert summaries([locked], host()) == []


def test_who_is_assigned_again_gets_in_again() -> None:
    seen = with_alice(Account(2001, 2001, "/home/alice", "/bin/bash", expires=1), files={})
    assert summaries([user()], seen) == [
        "let alice in again",
        "write /home/alice/.ssh/authorized_keys2",
    ]
    locked = with_alice(Account(2001, 2001, "/home/alice", "/bin/bash", expires=1), files={})
    assert summaries([user(slices=["solo"])], locked) == []


def test_an_end_that_somebody_else_set_stays() -> None:
    seen = with_alice(Account(2001, 2001, "/home/alice", "/bin/bash", expires=20000))
    assert summaries([user()], seen) == []


def test_a_password_is_taken_away() -> None:
    seen = with_alice(Account(2001, 2001, "/home/alice", "/bin/bash", password=True))
    steps = planned([user()], seen)
    assert [step.argv for step in steps] == [("usermod", "--password", "*", "alice")]


def test_a_home_that_is_missing_is_made() -> None:
    assert summaries([user()], with_alice(homes={}))[0] == "make /home/alice"


@pytest.mark.parametrize(
    ("now", "declared", "then"),
    [
        # Homes of before, and what a user has closed further.
        (0o755, {}, 0o750),
        (0o775, {}, 0o750),
        (0o777, {}, 0o750),
        (0o711, {}, 0o710),
        (0o750, {}, None),
        (0o700, {}, None),
        (0o755, {"home_permissions": "0755"}, None),
        (0o750, {"home_permissions": "0755"}, 0o755),
        (0o755, {"home_permissions": "700"}, 0o700),
    ],
)
def test_others_get_into_no_home_that_is_not_declared_so(
    now: int, declared: dict[str, str], then: int | None
) -> None:
    seen = with_alice(homes={"/home/alice": Home(uid=2001, mode=now)})
    steps = plan([user(**declared)], {}, seen)
    wanted = [] if then is None else [("mode", "/home/alice", "alice", then)]
    assert [(step.work, step.path, step.owner, step.mode) for step in steps] == wanted
    # What is not the user's own folder is not touched, nor that of one who is locked.
    for home in (Home(uid=0, mode=now), Home(kind="other", uid=2001, mode=now)):
        assert plan([user(**declared)], {}, with_alice(homes={"/home/alice": home})) == []
    locked = plan([user(slices=["solo"], **declared)], {}, seen)
    assert "mode" not in [step.work for step in locked]


def test_who_is_declared_no_more_is_locked_unless_it_is_ansible() -> None:
    seen = with_alice(recorded={"alice": 2001, "bob": 2002, "ubuntu": 1000}, login="ubuntu")
    gone = dropped([], seen)
    assert [(left.name, left.fate) for left in gone] == [("alice", "locked")]
    assert summaries(gone, seen)[0] == "lock alice out, keep /home/alice"
    assert record_of(gone, seen) == {"alice": 2001}
    assert dropped([user()], seen) == []
    # The name was taken by somebody else meanwhile.
    other = with_alice(Account(3001, 3001, "/home/alice", "/bin/bash"), recorded={"alice": 2001})
    assert dropped([], other) == []


def test_the_record_forgets_who_went() -> None:
    assert record_of([user(), user(name="bob", state="absent")], with_alice()) == {"alice": 2001}


@pytest.mark.parametrize(
    ("users", "seen", "words"),
    [
        (
            [user()],
            with_alice(
                groups={
                    **with_alice().groups,
                    "google-sudoers": Group(1001, frozenset({"alice"})),
                }
            ),
            ["google-sudoers", "metadata"],
        ),
        (
            [user(state="absent")],
            host(guest_agent_users=frozenset({"alice"})),
            ["guest agent", "again"],
        ),
    ],
)
def test_what_the_guest_agent_does_beside_us_is_told(
    users: list[User], seen: Host, words: list[str]
) -> None:
    told = warnings(users, seen)
    assert len(told) == 1
    for word in words:
        assert word in told[0]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, []),
        ({"authorizedkeysfile": [".ssh/authorized_keys"]}, ["AuthorizedKeysFile"]),
        ({"pubkeyauthentication": ["no"]}, ["PubkeyAuthentication"]),
        ({"allowusers": ["ubuntu"]}, ["AllowUsers", "alice"]),
        ({"allowusers": ["ali*"]}, []),
        ({"allowgroups": ["docker"]}, ["AllowGroups"]),
        ({"allowgroups": ["alice"]}, []),
        ({"denygroups": ["docker", "alice"]}, ["DenyGroups"]),
        ({"denyusers": ["bob"]}, []),
    ],
)
def test_settings_of_sshd_that_keep_people_out(
    said: dict[str, list[str]], words: list[str]
) -> None:
    usual = {
        "authorizedkeysfile": [".ssh/authorized_keys", ".ssh/authorized_keys2"],
        "pubkeyauthentication": ["yes"],
    }
    found = settings_problems({**usual, **said}, [user()], with_alice())
    assert bool(found) is bool(words)
    for word in words:
        assert word in found[0]


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
        ([user(groups=["nope"])], {}, host(), ["groups", "nope", "fleet_groups"]),
        ([user(name="root")], {}, host(), ["root", "system account"]),
        (
            [user(uid=2005)],
            {},
            with_alice(processes=BUSY),
            ["2005", "4711 python", "declare 2001"],
        ),
        (
            [user(state="absent")],
            {},
            with_alice(processes=BUSY, runs={"alice": ("digits",)}),
            ["removed", "4711 python", "runs: digits"],
        ),
        (
            [user()],
            {},
            host(foreign_names={"alice": 4000000001}),
            ["name = 'alice'", "OS Login", "enable-oslogin"],
        ),
        ([user()], {}, host(foreign_uids={2001: "alice_example_com"}), ["alice_example_com"]),
        (
            [user()],
            {},
            host(homes={"/home/alice": Home(uid=2009)}),
            ["/home/alice", "2009", "chown"],
        ),
        (
            [user(state="absent", home_on_removal="delete")],
            {},
            with_alice(homes={"/home/alice": Home(uid=2001, mounts=("/home/alice/share",))}),
            ["/home/alice/share", "mounted"],
        ),
        (
            [user(state="absent", home_on_removal="delete")],
            {},
            with_alice(homes={"/home/alice": Home(kind="other", uid=2001)}),
            ["is not a folder that alice owns"],
        ),
        (
            [user(state="absent", home_on_removal="archive")],
            {},
            with_alice(homes={"/home/alice": Home(uid=2001, size=3 << 30)}, room=1 << 30),
            ["3.0 GiB", "1.0 GiB", "fleet_archive_dir"],
        ),
        (
            [user(state="absent", home_on_removal="delete")],
            {},
            with_alice(
                accounts={
                    **with_alice().accounts,
                    "bob": Account(2002, 2002, "/home/alice/bob", "/bin/bash"),
                }
            ),
            ["home of bob"],
        ),
        ([user(name="ubuntu", uid=1000, slices=["solo"])], {}, host(login="ubuntu"), ["Ansible"]),
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
        (None, None),
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
        ({"name": "Alice!", "uid": 2001}, ["fleet_users[0].name", "Alice!"]),
        ({"name": "alice", "uid": 2001, "keys": ["ssh-ed25519 AAAA x"]}, ["keys[0]", "AAAA"]),
        ({"name": "alice", "uid": 12}, ["fleet_users[0].uid", "12"]),
        ({"name": "alice", "uid": 2001, "sudo": "yes"}, ["fleet_users[0].sudo", "yes"]),
    ],
)
def test_a_wrong_declaration_names_field_and_value(entry: dict[str, Any], words: list[str]) -> None:
    problems = declared_problems([entry], [])
    assert len(problems) == 1
    for word in words:
        assert word in problems[0]


def test_a_right_declaration_has_no_problem() -> None:
    entry = {"name": "alice", "uid": 2001, "gid": 2001, "home": "/data/alice", "keys": [KEY]}
    assert declared_problems([entry], [{"name": "lab", "gid": 3000}]) == []
