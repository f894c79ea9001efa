"""The stored list of workers, and when the API is asked for a newer one."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.worker_list import (
    list_path,
    list_text,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.workers.inventory import lookup
from tpu_fleet.workers.inventory.hosts import Known, select
from tpu_fleet.workers.inventory.lookup import chosen, known_fleet


def fleet(*names: str) -> Known:
    groups = {f"tpu_slice_{name}": (name,) for name in names}
    targets = {name: Target(name, "192.0.2.1") for name in names}
    return Known(Path("/s/ssh_config"), Fleet(targets, groups, ("/fleet/inventory",)))


class Api:
    """Answers with a fleet, or not at all; counts how often it is asked."""

    def __init__(self, *names: str) -> None:
        self.fleet: Known | None = fleet(*names)
        self.asked = 0

    def ask(self) -> Known:
        self.asked += 1
        if self.fleet is None:
            raise click.ClickException("The fleet cannot be read: no answer")
        return self.fleet


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Api:
    found = Api("old", "new")
    monkeypatch.setenv("TPU_FLEET_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ANSIBLE_INVENTORY", "/fleet/inventory")
    monkeypatch.setattr(lookup, "ask_or_say_why", found.ask)
    return found


def store(known: Known) -> None:
    path = list_path(known.fleet.inventory, os.environ)
    path.parent.mkdir(exist_ok=True)
    path.write_text(list_text(known.fleet, known.path))


def names(known: Known, *slices: str) -> list[str]:
    return select(known, slices, None)


def test_what_is_stored_is_taken_without_a_question(api: Api) -> None:
    store(fleet("old"))
    assert known_fleet(False).names == ["old"]
    assert chosen(lambda known: names(known, "old"))[1] == ["old"]
    assert api.asked == 0


def test_a_stored_fleet_without_workers_is_asked_for_again(api: Api) -> None:
    store(fleet())
    assert known_fleet(False).names == ["new", "old"]
    assert api.asked == 1
    assert chosen(names)[1] == ["new", "old"]
    assert api.asked == 2


def test_a_slice_that_came_since_is_found(api: Api) -> None:
    store(fleet("old"))
    known, found = chosen(lambda known: names(known, "new"))
    assert (known.names, found, api.asked) == (["new", "old"], ["new"], 1)


def test_what_the_api_does_not_have_either_is_refused_after_one_question(api: Api) -> None:
    store(fleet("old"))
    with pytest.raises(click.ClickException, match="There is new, old"):
        chosen(lambda known: names(known, "odd"))
    assert api.asked == 1


def test_nothing_is_chosen_twice_in_the_same_fleet(api: Api) -> None:
    store(fleet("old", "new"))
    tried = []

    def choose(known: Known) -> None:
        tried.append(known)
        raise click.ClickException("There is no run digits.")

    with pytest.raises(click.ClickException, match="no run digits"):
        chosen(choose)
    assert (len(tried), api.asked) == (1, 1)


@pytest.mark.parametrize(("refresh", "asked"), [(False, 0), (True, 1)])
def test_the_option_decides_whether_the_api_is_asked(api: Api, refresh: bool, asked: int) -> None:
    store(fleet("old"))
    with pytest.raises(click.ClickException, match="There is no slice odd"):
        chosen(lambda known: names(known, "odd"), refresh)
    assert api.asked == asked


def test_without_a_list_the_api_is_asked_once(api: Api) -> None:
    with pytest.raises(click.ClickException, match="There is no slice odd"):
        chosen(lambda known: names(known, "odd"))
    assert api.asked == 1


def test_where_the_api_does_not_answer_both_reasons_are_printed(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    store(fleet())
    api.fleet = None
    with pytest.raises(click.ClickException, match="The fleet has no workers"):
        chosen(names)
    assert "no answer" in capsys.readouterr().err
    assert known_fleet(False).names == []
