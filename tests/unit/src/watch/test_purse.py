"""The watcher counts what slices cost, and acts when the budget is spent."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import Unavailable
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import Rest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import Spend
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from slices_seen import slice_seen

from tpu_fleet.watch import purse as purse_module
from tpu_fleet.watch.decide import SliceSeen
from tpu_fleet.watch.hosts import HostSeen
from tpu_fleet.watch.memory import Memory
from tpu_fleet.watch.purse import Purse

NOON = datetime(2026, 6, 10, 12, tzinfo=UTC)
ZONE = "us-central2-b"
ENTRY = {"name": "solo", "accelerator_type": "v4-8", "zone": ZONE}
DOLLAR = {"generation": "v4", "region": "us-central2", "tier": "on_demand", "usd_per_chip_hour": 1}


class Book:
    """The count that all watchers share."""

    def __init__(self) -> None:
        self.there = Spend()
        self.reads = 0
        self.fails = False

    def read(self) -> Spend:
        self.reads += 1
        return self.there

    def write(self, spend: Spend) -> Spend:
        if self.fails:
            raise Unavailable("later")
        self.there = max(self.there, spend, key=lambda one: one.at)
        return self.there


class Rests:
    """The record of slices that rest."""

    def __init__(self) -> None:
        self.written: dict[str, Rest] = {}

    def write(self, changes: dict[str, Rest]) -> None:
        self.written |= changes


@dataclass
class Settings:
    """What the fleet file says."""

    params: dict[str, Any]
    rests: Rests = field(default_factory=Rests)
    prices: list[Any] = field(default_factory=lambda: [DOLLAR])

    def client(self) -> None:
        return None

    def rest_book(self, _client: Any) -> Rests:
        return self.rests


class Clock:
    def now(self) -> float:
        return 5000.0


@dataclass
class State:
    """As much of a watcher's state as it needs."""

    settings: Settings
    memory: Memory = field(default_factory=Memory)
    seen: list[SliceSeen] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    @property
    def ready(self) -> list[str]:
        return [one.name for one in self.seen if one.phase == "ready"]


class Report:
    def __init__(self) -> None:
        self.titles: list[str] = []
        self.texts: dict[str, str] = {}

    def tell(self, messages: Any) -> None:
        self.titles += [message.title for message in messages]
        self.texts |= {message.key: message.text for message in messages}


class Scene:
    """A watcher with a budget, and a slice of four dollars an hour."""

    def __init__(self, patch: pytest.MonkeyPatch, book: Book, **budget: Any) -> None:
        params = {"budget": {"per_day": 10, "on_exceed": "delete", **budget}}
        self.state, self.report, self.book = State(Settings(params)), Report(), book
        self.stopped: list[Any] = []
        patch.setattr(purse_module, "book_of_spend", lambda *_words: book)
        self.purse = Purse(self.state, self.report, self._halt)  # type: ignore[arg-type]

    def _halt(self, _book: Any, runs: Any, by: str) -> dict[str, str]:
        self.stopped.append((dict(runs), by))
        return {}

    def look(
        self, hours: float, there: bool = True, silent: tuple[str, ...] = (), kind: str = "v4-8"
    ) -> None:
        at = NOON + timedelta(hours=hours)
        raw = {
            "name": f"projects/p/locations/{ZONE}/nodes/solo",
            "acceleratorType": kind,
            "state": "READY",
            "labels": {"tpu-fleet": "managed"},
            "createTime": f"{NOON:%Y-%m-%dT%H:%M:%SZ}",
        }
        nodes = (Node.from_api(raw),) if there else ()
        more: dict[str, Any] = {"uid": "u", "addresses": ("a -",)} if there else {}
        phase = "ready" if there else "waiting"
        self.state.seen = [slice_seen("solo", phase, "t", types=("v4-8",), **more)]
        fleet = Fleet.from_params({"slices": [ENTRY], "allocations": "unrestricted"}, "p")
        self.purse.look(fleet, World(nodes, (), frozenset(silent), at))

    @property
    def spent(self) -> float:
        return self.purse.spend.of_day(NOON.timestamp())


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch, Book())


def answer(state: str) -> Any:
    run = RunStatus(run="lm", state=state, attempt=1, run_id="r", checkpoints_on="bucket")
    return {"solo": {"solo": HostSeen(True, boot_id="b", runs=(run,))}}


def test_each_look_is_counted_and_shared(scene: Scene) -> None:
    for hours in (1, 1.5, 2):
        scene.look(hours)
    assert scene.spent == pytest.approx(8.0)
    assert scene.book.there == scene.purse.spend
    assert (scene.purse.over, scene.report.titles) == (None, [])
    facts = scene.purse.facts()
    assert facts is not None
    assert facts["periods"][0]["left"] == pytest.approx(2.0)


def test_runs_stop_and_then_the_slice_goes(scene: Scene) -> None:
    scene.look(2)
    scene.look(2.5)
    assert scene.purse.acts
    assert scene.purse.presses
    assert scene.report.titles == ["The budget of $10.00 a day is spent"]
    assert scene.purse.measures(answer("running"), object()) == {}  # type: ignore[arg-type]
    assert scene.stopped == [({"solo": ("lm",)}, "budget")]
    finishes = scene.purse.measures(answer("stopped"), object())  # type: ignore[arg-type]
    assert finishes["solo"].how == "delete"


def test_what_is_not_there_is_not_created(scene: Scene) -> None:
    scene.look(2.5)
    scene.look(2.6, there=False)
    rest = scene.state.settings.rests.written["solo"]
    assert (rest.held, rest.done) == (True, True)
    assert not scene.purse.presses


def test_a_warning_only_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, Book(), on_exceed="warn")
    scene.look(3)
    assert scene.report.titles == ["The budget of $10.00 a day is spent"]
    assert not scene.purse.acts
    assert scene.purse.measures(answer("running"), object()) == {}  # type: ignore[arg-type]
    assert scene.stopped == []
    scene.look(3.1, there=False)
    assert scene.state.settings.rests.written == {}


def test_another_watcher_goes_on_with_the_count(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.look(1)
    scene.look(2)
    # Two hours without any watcher; the slice is gone then.
    other = Scene(monkeypatch, scene.book)
    other.look(4, there=False)
    assert other.spent == pytest.approx(16.0)
    # The first one comes back, and does not count again what the other has counted.
    scene.look(4.5, there=False)
    assert scene.spent == pytest.approx(16.0)


def test_a_restart_goes_on_with_the_memory(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.look(1)
    scene.book.fails = True  # the metadata cannot be written
    scene.look(2)
    again = Scene(monkeypatch, scene.book)
    again.state.memory = Memory.from_dict(scene.state.memory.to_dict())
    again.look(2.4)
    assert again.spent == pytest.approx(9.6)


def test_the_shared_count_is_read_after_a_gap_alone(scene: Scene) -> None:
    scene.look(1)
    reads = scene.book.reads
    scene.look(1.001)
    assert scene.book.reads == reads
    scene.look(2)
    assert scene.book.reads == reads + 1


def test_a_zone_that_does_not_answer_is_counted_on(scene: Scene) -> None:
    scene.look(1)
    scene.look(2, there=False, silent=(ZONE,))
    scene.look(3, there=False, silent=(ZONE,))
    assert scene.spent == pytest.approx(12.0)


def test_without_a_budget_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, Book())
    scene.state.settings.params["budget"] = None
    scene.look(5)
    assert (scene.state.memory.spend, scene.purse.facts(), scene.book.reads) == ({}, None, 0)


def test_a_slice_of_unknown_price_is_named_with_the_remedy(scene: Scene) -> None:
    scene.look(1, kind="v6e-8")
    scene.look(2, kind="v6e-8")
    facts = scene.purse.facts()
    assert facts is not None
    assert (scene.spent, facts["unpriced"]) == (0.0, {"solo": "v6e-8, on_demand, us-central2"})
    # The key is the same at each look, so that people are notified once.
    assert list(scene.report.texts.items()) == [
        (
            "budget-unpriced:v6e-8, on_demand, us-central2",
            "Nothing is counted of solo (v6e-8, on_demand, us-central2), because the price is "
            "unknown: give it in fleet_prices.",
        )
    ]
    scene.state.settings.prices = [{**DOLLAR, "generation": "v6e"}]
    scene.look(2.1, kind="v6e-8")
    facts = scene.purse.facts()
    assert facts is not None
    assert facts["unpriced"] == {}
    assert scene.spent > 0
