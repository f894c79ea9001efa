"""Who works on a fleet, as labels say it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.lease import (
    Lease,
    held_by_another,
    holder_name,
    without_lease,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
MINE = Lease("alice_at_laptop", NOW + timedelta(minutes=20))
THEIRS = Lease("bob_at_lab", NOW + timedelta(minutes=5))


def test_a_lease_survives_its_labels() -> None:
    assert Lease.from_labels(MINE.labels()) == MINE
    assert without_lease({"team": "x", **MINE.labels()}) == {"team": "x"}


def test_only_the_living_lease_of_another_counts() -> None:
    everywhere = [{}, MINE.labels(), THEIRS.labels()]
    assert held_by_another(everywhere, "alice_at_laptop", NOW) == THEIRS
    assert held_by_another(everywhere, "alice_at_laptop", NOW + timedelta(minutes=5)) is None
    assert held_by_another(everywhere, "bob_at_lab", NOW) == MINE


def test_labels_that_nobody_can_read_are_no_lease() -> None:
    assert Lease.from_labels({"tpu-fleet-lease": "bob", "tpu-fleet-lease-until": "soon"}) is None
    assert Lease.from_labels({"tpu-fleet-lease-until": "1"}) is None
    far = {"tpu-fleet-lease": "bob", "tpu-fleet-lease-until": "9" * 40}
    assert Lease.from_labels(far) is None


def test_a_holder_can_be_a_label() -> None:
    assert holder_name("Alice.B", "Host.example") == "alice-b_at_host-example"
    assert len(holder_name("x" * 80, "host")) == 63
