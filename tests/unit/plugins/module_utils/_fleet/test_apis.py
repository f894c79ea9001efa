"""Which of the two APIs a look asks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    PermissionDenied,
    TpuError,
    Unavailable,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apis import QUIET, Apis
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Listing, Node
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import FakeClock

NODE = Node.from_api({"name": "projects/p/locations/z/nodes/one"})


class Side:
    """One API, which counts how often it is listed."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.there: list[Node] = []
        self.waiting: list[Any] = []
        self.unreachable: list[str] = []
        self.error: TpuError | None = None
        self.looks = 0

    def nodes(self) -> Listing[Node]:
        self.looks += 1
        if self.error:
            raise self.error
        return Listing(self.there, self.unreachable)

    def queued(self, _tiers: Collection[str]) -> Listing[Any]:
        return Listing(self.waiting)

    def operations(self, zone: str) -> list[Any]:
        return [zone]


class Fleet:
    """A fleet that declares slices of the Cloud TPU API only."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.tpu, self.compute = Side(self.clock), Side(self.clock)
        self.apis = Apis(self.tpu, self.compute, {"tpu"})  # type: ignore[arg-type]  # fakes

    def look(self, queue: bool = True) -> int:
        """Return how many nodes are seen."""
        seen = len(self.apis.nodes().items)
        if queue:
            self.apis.queued(())
        return seen


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_where_nothing_is_and_nothing_is_declared_is_left_out_for_a_while(fleet: Fleet) -> None:
    for _look in range(3):
        assert fleet.look() == 0
    assert (fleet.tpu.looks, fleet.compute.looks) == (3, 1)
    assert fleet.apis.operations("z") == ["z"]
    # Another controller has made something there.
    fleet.compute.there = [NODE]
    fleet.clock.sleep(QUIET)
    assert [fleet.look(), fleet.look()] == [1, 1]
    assert fleet.compute.looks == 3


def test_a_look_that_does_not_ask_for_requests_leaves_it_out_as_well(fleet: Fleet) -> None:
    fleet.look()
    fleet.clock.sleep(QUIET)
    for _look in range(3):
        fleet.look(queue=False)
    assert fleet.compute.looks == 2


@pytest.mark.parametrize("change", ["there", "waiting", "unreachable"])
def test_what_has_something_or_does_not_answer_is_asked_each_time(
    fleet: Fleet, change: str
) -> None:
    setattr(fleet.compute, change, [NODE])
    for _look in range(3):
        fleet.look()
    assert fleet.compute.looks == 3


def test_what_is_declared_is_asked_each_time(fleet: Fleet) -> None:
    fleet.apis = Apis(fleet.tpu, fleet.compute, {"tpu", "compute"})  # type: ignore[arg-type]  # fakes
    for _look in range(3):
        fleet.look()
    assert fleet.compute.looks == 3


def test_who_may_not_read_an_api_has_nothing_there(fleet: Fleet) -> None:
    fleet.compute.error = PermissionDenied("no")
    fleet.look()
    fleet.look()
    assert fleet.compute.looks == 1
    fleet.apis = Apis(fleet.tpu, fleet.compute, {"compute"})  # type: ignore[arg-type]  # fakes
    with pytest.raises(PermissionDenied):
        fleet.look()


def test_a_refusal_does_not_hide_a_node_that_was_seen(fleet: Fleet) -> None:
    """As when an API is disabled for a moment: the slice would be created once more elsewhere."""
    fleet.apis = Apis(fleet.tpu, fleet.compute, {"tpu"}, lambda labels: not labels)  # type: ignore[arg-type]  # fakes
    fleet.compute.there = [NODE]
    assert fleet.look() == 1
    fleet.compute.error = PermissionDenied("disabled")
    with pytest.raises(PermissionDenied):
        fleet.look()


def test_an_api_that_is_away_is_not_empty(fleet: Fleet) -> None:
    fleet.compute.error = Unavailable("down")
    for _look in range(2):
        with pytest.raises(Unavailable):
            fleet.look()
    assert fleet.compute.looks == 2
