"""What a host that is asked to be something decides to do."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.wish import (
    Known,
    Wish,
    digest,
    todo,
)

ROLES = {"host_base": "h1", "user_accounts": "u1", "training_run": "t1"}
WISH = Wish(host="w0", code="c1", variables="v1", secrets="", environment={"version": "2.19.4"})
KNOWN = Known("ok", "boot1", "c1", digest(WISH.environment), ROLES)


def changed(base: Any, **fields: Any) -> Any:
    return type(base)(**{**base.__dict__, **fields})


def test_nothing_is_done_where_all_is_as_it_was() -> None:
    assert not todo(WISH, KNOWN, ROLES, "boot1", []).run


@pytest.mark.parametrize(
    ("wish", "known", "boot", "drift", "words"),
    [
        (WISH, Known.read(None), "boot1", [], "never applied"),
        (WISH, changed(KNOWN, status="interrupted"), "boot1", [], "ended as interrupted"),
        (WISH, changed(KNOWN, status="failed"), "boot1", [], "ended as failed"),
        (WISH, KNOWN, "boot2", [], "started anew"),
        (changed(WISH, code="c2"), KNOWN, "boot1", [], "another version"),
        (changed(WISH, environment={"version": "2"}), KNOWN, "boot1", [], "another ansible-core"),
        (changed(WISH, forced=True), KNOWN, "boot1", [], "everything"),
        (WISH, changed(KNOWN, roles={"host_base": "h1"}), "boot1", [], "other roles"),
        (WISH, KNOWN, "boot1", ["/etc/motd was changed"], "/etc/motd was changed"),
    ],
)
def test_everything_is_applied_where_something_is_unsure(
    wish: Wish, known: Known, boot: str, drift: list[str], words: str
) -> None:
    what = todo(wish, known, ROLES, boot, drift)
    assert what.run
    assert what.roles == ()
    assert words in "; ".join(what.reasons)


def test_only_the_roles_with_other_values_run() -> None:
    what = todo(WISH, KNOWN, {**ROLES, "training_run": "t2"}, "boot1", [])
    assert (what.run, what.roles) == (True, ["training_run"])
    # Unless something else is unsure.
    assert todo(WISH, KNOWN, {**ROLES, "training_run": "t2"}, "boot2", []).roles == ()


@pytest.mark.parametrize("asked", [{"check": True}, {"tags": ["x"]}, {"skip_tags": ["x"]}])
def test_a_part_runs_always_and_says_nothing_of_the_whole(asked: dict[str, Any]) -> None:
    wish = changed(WISH, **asked)
    assert todo(wish, KNOWN, ROLES, "boot1", []).run
    assert not wish.whole


def test_what_is_known_survives_being_written() -> None:
    assert Known.read(KNOWN.record()) == KNOWN
