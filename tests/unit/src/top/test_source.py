"""How often the API is asked, and what is said when it cannot be."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import GROUP_USABLE
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.commands.status import Looked
from tpu_fleet.top.source import Source
from tpu_fleet.workers.ask.run_follow import Heard
from tpu_fleet.workers.ask.run_view import Run
from tpu_fleet.workers.inventory.fleet_facts import FleetView
from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.inventory.names import read_names, remember
from tpu_fleet.workers.inventory.read import PlayError


def run_on(host: str, name: str) -> Run:
    return Run(host, host.partition("-")[0], 0, "running", RunStatus(name), 0.0)


NOBODY = Known(Path("ssh_config"), Fleet({}))


def until(what: Callable[[], bool]) -> None:
    """Wait for a thread."""
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def inventory_in(folder: Path) -> Inventory:
    """Return an inventory with the worker solo."""
    worker = {"tpu_vm_name": "solo", "tpu_vm_state": "READY"}
    hosts = folder / "hosts.yml"
    hosts.write_text(json.dumps({GROUP_USABLE: {"hosts": {"solo": worker}}}))
    return Inventory.read([str(hosts)], folder)


def test_the_api_is_asked_again_and_its_failure_is_shown(tmp_path: Path) -> None:
    asked: list[int] = []
    inventory = inventory_in(tmp_path)

    def ask() -> Looked:
        asked.append(1)
        if len(asked) == 2:
            raise PlayError("no credentials")
        return Looked(inventory, NOBODY, FleetView(warnings=["it ends soon"]))

    source = Source(5, ask, lambda: None)
    assert source.now().rows == []
    source.start()
    try:
        until(lambda: source.now().api_at is not None)
        now = source.now()
        assert [(row.host, row.slice) for row in now.rows] == [("solo", "solo")]
        assert (now.view.warnings, now.problems) == (["it ends soon"], ())
        time.sleep(0.1)
        assert len(asked) == 1
        source.ask_now()
        until(lambda: source.now().problems != ())
        assert source.now().problems == ("The API cannot be asked: no credentials",)
        # What was known stays.
        assert source.now().rows == now.rows
        source.ask_now()
        until(lambda: source.now().problems == ())
    finally:
        source.stop()
    assert not source.follower._thread.is_alive()


def test_workers_are_known_before_the_api_has_answered() -> None:
    groups = {"tpu_slice_pair": ("pair-w0", "pair-w1"), "tpu_unavailable": ("pair-w0", "pair-w1")}
    known = Known(Path("ssh_config"), Fleet({}, groups))
    source = Source(5, stored=lambda: known)
    assert [(row.host, row.slice) for row in source.now().rows] == [
        ("pair-w0", "pair"),
        ("pair-w1", "pair"),
    ]


@pytest.mark.parametrize(
    ("says", "runs"), [("", ["digits"]), ("it gave no answer", ["digits", "of-another-worker"])]
)
def test_names_are_kept_for_tab_and_forgotten_when_all_have_answered(
    says: str, runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    targets = {name: Target(name, "192.0.2.1", user="ops") for name in ("pair-w0", "pair-w1")}
    groups = {"tpu_slice_pair": tuple(targets)}
    known = Known(Path("ssh_config"), Fleet(targets, groups, ("/inventory",)))
    remember(("/inventory",), runs=["of-another-worker"])
    source = Source(5, stored=lambda: known)
    source.follower.heard = {
        "pair-w0": Heard(0.0, (run_on("pair-w0", "digits"), run_on("x", "-rf"))),
        "pair-w1": Heard(0.0, says=says),
    }
    source.stop()
    wanted = {"slices": ["pair"], "workers": list(targets), "runs": runs}
    assert read_names(("/inventory",)) == wanted


def test_names_of_the_api_are_kept_while_the_screen_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    groups = {"tpu_slice_solo": ("solo",), "tpu_unavailable": ("solo",)}
    known = Known(Path("ssh_config"), Fleet({}, groups, ("/inventory",)))
    remember(("/inventory",), runs=["digits"])
    inventory = inventory_in(tmp_path)
    source = Source(5, lambda: Looked(inventory, known, FleetView()), lambda: None)
    source.start()
    try:
        until(lambda: "slices" in read_names(("/inventory",)))
        assert read_names(("/inventory",)) == {
            "slices": ["solo"], "workers": ["solo"], "runs": ["digits"],
        }  # fmt: skip
    finally:
        source.stop()
