"""What a host that is asked to be something decides to do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import wish as wishes
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.wish import (
    Applied,
    Known,
    Wish,
    digest,
    parts_of,
    todo,
)

GIVEN = {"host_base": "h1", "code_checkout": "c1", "training_run": "t1"}
WISH = Wish(
    host="w0",
    roles=list(GIVEN),
    code="c1",
    variables="v1",
    secrets="",
    environment={"version": "2.19.4"},
    after={"training_run": ["code_checkout"]},
)
KNOWN = Known(
    "boot1", "c1", digest(WISH.environment), {name: Applied(h, "ok") for name, h in GIVEN.items()}
)


def with_status(status: str, *roles: str) -> Known:
    return KNOWN.with_status(roles, GIVEN, status)


def test_nothing_is_done_where_all_is_as_it_was() -> None:
    assert todo(WISH, KNOWN, GIVEN, "boot1", []).roles == []


NOTHING_TO_CLONE = replace(WISH, undeclared=["code_checkout"])
NEVER_CLONED = replace(
    KNOWN, roles={name: role for name, role in KNOWN.roles.items() if name != "code_checkout"}
)


def test_what_is_not_declared_and_never_was_applied_is_left_out() -> None:
    left = ["host_base", "training_run"]
    assert todo(NOTHING_TO_CLONE, Known(), GIVEN, "boot1", []).roles == left
    assert todo(NOTHING_TO_CLONE, NEVER_CLONED, GIVEN, "boot1", []).roles == []
    assert todo(NOTHING_TO_CLONE, NEVER_CLONED, GIVEN, "boot2", []).roles == left
    # Else nobody would take away what was declared before.
    assert todo(NOTHING_TO_CLONE, KNOWN, GIVEN, "boot2", []).roles == WISH.roles
    noted = {"code_checkout": {}}
    again = todo(NOTHING_TO_CLONE, NEVER_CLONED, GIVEN, "boot1", [], noted)
    assert again.roles == ["code_checkout", "training_run"]
    assert todo(WISH, NEVER_CLONED, GIVEN, "boot1", []).roles == ["code_checkout", "training_run"]
    forced = replace(NOTHING_TO_CLONE, forced=True)
    assert todo(forced, NEVER_CLONED, GIVEN, "boot1", []).roles == WISH.roles


@pytest.mark.parametrize(
    ("wish", "boot", "drift", "words"),
    [
        (WISH, "boot2", [], "was rebooted"),
        (replace(WISH, code="c2"), "boot1", [], "collection has changed"),
        (replace(WISH, environment={"version": "2"}), "boot1", [], "another ansible-core"),
        (WISH, "boot1", ["/etc/motd was changed"], "/etc/motd was changed"),
    ],
)
def test_everything_is_applied_where_something_is_unsure(
    wish: Wish, boot: str, drift: list[str], words: str
) -> None:
    what = todo(wish, KNOWN, GIVEN, boot, drift)
    assert (what.roles, what.unsure) == (wish.roles, True)
    assert what.reasons == [next(reason for reason in what.reasons if words in reason)]
    # Also when fewer roles are asked for: the others are not sure any more.
    assert todo(replace(wish, roles=["host_base"]), KNOWN, GIVEN, boot, drift).unsure


@pytest.mark.parametrize(
    ("wish", "known", "given", "roles", "reasons"),
    [
        (WISH, Known(), GIVEN, list(GIVEN), ["all roles: it was never applied"]),
        (
            WISH,
            with_status("the last time it failed", "host_base"),
            GIVEN,
            ["host_base"],
            ["host_base: the last time it failed"],
        ),
        (
            WISH,
            KNOWN,
            {**GIVEN, "training_run": "t2"},
            ["training_run"],
            ["training_run: its values changed"],
        ),
        (
            WISH,
            KNOWN,
            {**GIVEN, "code_checkout": "c2"},
            ["code_checkout", "training_run"],
            [
                "code_checkout: its values changed",
                "training_run: it depends on code_checkout",
            ],
        ),
        (
            replace(WISH, always=["code_checkout"]),
            KNOWN,
            GIVEN,
            ["code_checkout", "training_run"],
            [
                "code_checkout: what it follows may have moved",
                "training_run: it depends on code_checkout",
            ],
        ),
        (
            replace(WISH, forced=True),
            KNOWN,
            GIVEN,
            list(GIVEN),
            ["asked for, whatever has changed"],
        ),
        # What was not asked for is of no concern, and new roles are no reason for the others.
        (
            replace(WISH, roles=["host_base"]),
            with_status("the last time it failed", "training_run"),
            GIVEN,
            [],
            [],
        ),
    ],
)
def test_only_what_has_a_reason_is_applied(
    wish: Wish, known: Known, given: dict[str, str], roles: list[str], reasons: list[str]
) -> None:
    what = todo(wish, known, given, "boot1", [])
    assert (what.roles, what.reasons, what.unsure) == (roles, reasons, False)


@pytest.mark.parametrize("given", [GIVEN, {**GIVEN, "training_run": "t2"}])
@pytest.mark.parametrize("drift", [[], ["/etc/hosts has changed"]])
def test_a_check_looks_at_what_an_apply_would_apply(
    given: dict[str, str], drift: list[str]
) -> None:
    check = replace(WISH, check=True)
    assert todo(check, KNOWN, given, "boot1", drift) == todo(WISH, KNOWN, given, "boot1", drift)
    assert not check.whole


@pytest.mark.parametrize("asked", [{"tags": ["x"]}, {"skip_tags": ["x"]}])
def test_a_part_runs_always_and_says_nothing_of_the_whole(asked: dict[str, Any]) -> None:
    wish = replace(WISH, **asked)
    assert todo(wish, KNOWN, GIVEN, "boot1", []).roles == wish.roles
    assert not wish.whole


def test_the_variables_that_changed_are_named() -> None:
    given = {**GIVEN, "training_run": "t2"}
    before = {"training_run_runs": "r1", "training_run_slice": "a", "gone": "g"}
    known = replace(KNOWN, parts={"training_run": before})
    now = {"training_run": {"training_run_runs": "r1", "training_run_slice": "b"}}
    what = todo(WISH, known, given, "boot1", [], parts=now)
    assert what.reasons == ["training_run: gone, training_run_slice changed"]
    # A record of an earlier version has no names.
    assert todo(WISH, KNOWN, given, "boot1", [], parts=now).reasons == [
        "training_run: its values changed"
    ]
    many = {"training_run": {f"v{number}": "x" for number in range(9)}}
    known = replace(KNOWN, parts={"training_run": {}})
    told = todo(WISH, known, given, "boot1", [], parts=many).reasons
    assert told == ["training_run: v0, v1, v2, and 6 more changed"]


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        # The keys are of other runs, by the same secret.
        (
            {"training_run_runs": "r1", "training_run_keys": "k1"},
            {"training_run_runs": "r2", "training_run_keys": "k2"},
            "training_run: training_run_keys, training_run_runs changed",
        ),
        (
            {"training_run_runs": "r1", "training_run_keys": "k1"},
            {"training_run_runs": "r1", "training_run_keys": "k2"},
            "training_run: training_run_keys changed, as this computer has another gang_secret "
            "than the one that applied before: copy the file from that one's state folder into "
            "this one's",
        ),
    ],
)
def test_a_secret_of_another_computer_is_named_with_the_remedy(
    before: dict[str, str], now: dict[str, str], reason: str
) -> None:
    given = {**GIVEN, "training_run": "t2"}
    known = replace(KNOWN, parts={"training_run": before})
    parts = {"training_run": now}
    assert todo(WISH, known, given, "boot1", [], parts=parts).reasons == [reason]


def test_the_parts_of_a_role_are_its_variables_and_files() -> None:
    parts = parts_of(["a", "b"], {"a": ["x", "missing"], "b": []}, {"x": 1}, {"a": {"f": "sha"}})
    assert parts == {"a": {"x": digest(1), "its files": digest({"f": "sha"})}, "b": {}}


def test_a_run_that_a_person_stops_is_no_reason_to_apply_its_role() -> None:
    uses = {"training_run": ["training_run_runs", "training_run_stopped"]}

    def given(**values: object) -> list[object]:
        names = {f"training_run_{name}": value for name, value in values.items()}
        return [
            kind(["training_run"], uses, names, {}) for kind in (wishes.given_of, wishes.parts_of)
        ]

    runs: list[object] = [{"name": "digits"}]
    assert given(runs=runs, stopped={}) == given(runs=runs, stopped={"digits": "alice"})
    assert given(runs=runs, stopped={}) != given(runs=[], stopped={})


def test_roles_that_depend_on_others_are_known_without_a_wish_for_them() -> None:
    known = replace(KNOWN, after={"training_run": ["code_checkout"], "host_base": []})
    assert known.depending_on(["code_checkout"]) == {"training_run": "code_checkout"}
    assert known.depending_on(["code_checkout", "training_run"]) == {}
    assert known.depending_on(["host_base"]) == {}


def test_a_wish_without_some_roles_asks_for_no_files_of_theirs() -> None:
    wish = replace(WISH, snapshots={"code_checkout": {"toy.tar.gz": "sha"}})
    assert "sha" in wish.files
    rest = wish.without(["code_checkout"])
    assert (rest.roles, rest.files) == (["host_base", "training_run"], ["c1", "v1"])


def test_what_is_known_survives_being_written() -> None:
    after = replace(KNOWN, after={"training_run": ["code_checkout"]}, parts={"a": {"x": "1"}})
    assert Known.read(json.loads(json.dumps(after.record()))) == after
    assert Known.read(json.loads(json.dumps(KNOWN.record()))) == KNOWN
    assert Known.read(None) == Known()


def test_an_archive_counts_by_the_description_of_its_content() -> None:
    def given(**files: str) -> list[object]:
        named = {name.replace("_", "."): one for name, one in files.items()}
        snapshots = {"code_checkout": named}
        uses = {"code_checkout": ["a"]}
        return [
            kind(["code_checkout"], uses, {"a": 1}, snapshots)
            for kind in (wishes.given_of, wishes.parts_of)
        ]

    same = given(toy_tar_gz="packed", toy_json="content")
    assert given(toy_tar_gz="packed otherwise", toy_json="content") == same
    assert given(toy_tar_gz="packed", toy_json="other content") != same
    # Without a description, its bytes count.
    assert given(toy_tar_gz="packed") != given(toy_tar_gz="packed otherwise")
