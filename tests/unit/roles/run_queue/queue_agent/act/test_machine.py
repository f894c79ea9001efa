"""What worker 0 sees of the declared runs, and of the run that it has taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from queue_agent.act.machine import Machine
from queue_agent.decide.settings import Places
from run_agent.act.definitions import load
from run_definition import PUBLIC


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = Places(tmp_path)
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    for folder in (boot.parent, places.runs, places.units / "multi-user.target.wants"):
        folder.mkdir(parents=True)
    boot.write_text("boot-now")
    return places


def define(places: Places, run: str, state: str = "", **more: Any) -> None:
    (places.runs / f"{run}.json").write_text(json.dumps({"needs_tpu": "auto", **more}))
    folder = places.root / "var/lib/tpu-fleet/runs" / run
    folder.mkdir(parents=True)
    if state:
        (folder / "status.json").write_text(json.dumps({"state": state, "boot_id": "boot-now"}))


def enable(places: Places, run: str) -> None:
    wants = places.units / "multi-user.target.wants"
    (wants / f"tpu-fleet-run@{run}.service").symlink_to("/nowhere")


def test_the_declared_runs_that_may_want_the_slice(places: Places) -> None:
    define(places, "works", "running", needs_tpu="false")
    define(places, "new")
    enable(places, "new")
    define(places, "disabled")
    define(places, "mine", "running")
    (places.runs / "mine.submitted").write_text("{}")
    assert Machine(places).declared() == [
        {"run": "new", "state": "not started", "needs_tpu": "auto"},
        {"run": "works", "state": "running", "needs_tpu": "false"},
    ]


def test_which_runs_have_their_turn(places: Places) -> None:
    places.tickets.mkdir(parents=True)
    for run, holds in (("one", True), ("two", False), ("three", "yes")):
        (places.tickets / f"{run}.json").write_text(json.dumps({"run": run, "holds": holds}))
    assert Machine(places).holding() == ["one"]


def test_a_status_counts_if_it_is_about_this_claim(places: Places) -> None:
    machine = Machine(places)
    define(places, "one")
    (places.runs / "one.json").write_text(json.dumps({**PUBLIC, "submitted": {"claim": 3}}))
    own = load(places.runs / "one.json").definition
    status = places.root / "var/lib/tpu-fleet/runs/one/status.json"
    status.write_text(json.dumps({"state": "running", "definition": "of an earlier claim"}))
    assert machine.status("one", 3) == {}
    status.write_text(json.dumps({"state": "running", "definition": own}))
    assert machine.status("one", 3)["state"] == "running"
    assert machine.status("one", 2) == {}
    assert machine.status("two", 3) == {}
    # Another claim of it, which is another definition.
    (places.runs / "one.json").write_text(json.dumps({**PUBLIC, "submitted": {"claim": 4}}))
    assert machine.status("one", 3) == machine.status("one", 4) == {}


@pytest.mark.parametrize(
    ("state", "has_ended"),
    [("running", False), ("stopped", False), ("succeeded", True), ("failed", True)],
)
def test_a_run_has_ended_when_its_agent_wrote_so(
    places: Places, state: str, has_ended: bool
) -> None:
    define(places, "one")
    (places.runs / "one.json").write_text(json.dumps({**PUBLIC, "submitted": {"claim": 3}}))
    own = load(places.runs / "one.json").definition
    status = places.root / "var/lib/tpu-fleet/runs/one/status.json"
    status.write_text(json.dumps({"state": state, "definition": own}))
    assert Machine(places).has_ended("one", 3) is has_ended
    assert not Machine(places).has_ended("one", 2)


def test_a_venv_is_built_that_root_has_recorded(places: Places) -> None:
    assert not Machine(places).has_venv("jax")
    places.venvs.mkdir(parents=True)
    (places.venvs / "jax.json").write_text("{}")
    assert Machine(places).has_venv("jax")
