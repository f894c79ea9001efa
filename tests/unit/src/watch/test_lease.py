"""One of several watchers works: who gets the lease, and what a race leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tpu_fleet.watch.lease import Held, ProjectLease, claim, read


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("a_at_b-123456 1794000000", Held("a_at_b-123456", 1794000000.0)),
        ("", None),
        ("somebody", None),
        ("a b c", None),
        ("a 17940000000000", None),
    ],
)
def test_what_stands_there(text: str, held: Held | None) -> None:
    assert read(text) == held


@pytest.mark.parametrize(
    ("text", "gets"),
    [
        ("", True),
        ("nobody understands this", True),
        ("me 50", True),
        ("me 500", True),
        ("other 99", True),
        ("other 100", True),
        ("other 101", False),
    ],
)
def test_who_gets_it(text: str, gets: bool) -> None:
    assert claim(text, "me", 100.0, 900.0) == (Held("me", 1000.0) if gets else None)


class Metadata:
    """A project's metadata, and another writer who may be faster."""

    def __init__(self) -> None:
        self.values = {"ssh-keys": "x"}
        self.faster: dict[str, str] = {}
        self.writes = 0

    def change_metadata(self, alter: Callable[[dict[str, str]], dict[str, str] | None]) -> None:
        alter(dict(self.values))
        self.values.update(self.faster)
        wanted = alter(dict(self.values))
        if wanted is not None:
            self.values, self.writes = wanted, self.writes + 1


def lease(metadata: Metadata, holder: str, clock: list[float]) -> ProjectLease:
    return ProjectLease(cast(Any, metadata), lambda: clock[0], "managed", holder, 900.0)


def test_take_keep_stand_by_take_over_and_give_back() -> None:
    metadata, clock = Metadata(), [1000.0]
    one, two = lease(metadata, "one", clock), lease(metadata, "two", clock)
    assert one.take(0.0)
    assert (one.holds(899.0), one.holds(900.0), one.is_fresh(400.0)) == (True, False, True)
    assert not two.take(0.0)
    assert (str(two.other), two.holds(1.0)) == ("one 1900", False)
    clock[0] = 1500.0
    assert one.take(500.0)
    clock[0] = 2401.0
    assert two.take(1401.0)
    assert not one.take(1401.0)
    two.give_back()
    assert metadata.values == {"ssh-keys": "x"}
    assert one.take(1402.0)
    two.give_back()
    assert metadata.values["tpu-fleet-watch"].startswith("one ")


def test_who_was_faster_has_it() -> None:
    metadata, clock = Metadata(), [1000.0]
    metadata.faster = {"tpu-fleet-watch": "other 9999"}
    mine = lease(metadata, "one", clock)
    assert not mine.take(0.0)
    assert (mine.holds(0.0), metadata.writes) == (False, 0)


def test_fleets_of_other_owners_have_their_own() -> None:
    metadata = Metadata()
    other = ProjectLease(cast(Any, metadata), lambda: 0.0, "vision", "one", 900.0)
    assert other.take(0.0)
    assert set(metadata.values) == {"ssh-keys", "tpu-fleet-watch-vision"}
