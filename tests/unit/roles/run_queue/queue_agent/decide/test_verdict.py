"""May a run start here?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects as collection
from queue_agent.decide.settings import Settings
from queue_agent.decide.verdict import differs, refusals, unfit
from queue_agent.shared._queue import objects
from queue_agent.shared._queue.limits import Limits

SETTINGS = Settings(
    *("pair", "us-central2-b", "node-1", "v4-16", 8, ("10.0.0.2", "10.0.0.3"), 0, 308),
    *("lab", "queue/", True, None, Limits()),
    users={"alice": ("alice", "lab"), "bob": ("bob",)},
    secrets={"alice": ("wandb",)},
    people=frozenset({"alice"}),
    on_result=None,
    reserved=None,
    venvs=frozenset({"jax"}),
    venvs_elsewhere=frozenset({"jax", "torch"}),
    training={"training_run_runs": [{"name": "digits", "slices": ["pair"]}]},
)
ONE = objects.Definition("one", "alice", "lab", ("true",), "jax", 1.0, secrets=("wandb",))


ROOTS = "/var/lib/tpu-fleet"


@pytest.mark.parametrize(
    "place", [None, "", "gs://lab/a", f"{ROOTS}/checkpoints/one", "/data/one", "/home/alice/one/"]
)
def test_where_checkpoints_may_be(place: str | None) -> None:
    assert refusals(replace(ONE, checkpoint_dir=place), SETTINGS, "one") == []


def test_what_the_fleet_file_allows() -> None:
    assert refusals(ONE, SETTINGS, "one") == []
    assert refusals(replace(ONE, venv="torch"), SETTINGS, "one") == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"user": "bob"}, "user: alice may not submit as bob"),
        ({"person": "bob", "user": "alice"}, "user: bob may not submit as alice"),
        ({"person": "eve", "user": "eve"}, "user: eve may not submit as eve"),
        ({"secrets": ("hub",)}, "secrets: alice may not use hub"),
        ({"venv": "other"}, "venv: other is not in fleet_venvs"),
        ({"name": "digits"}, "name: a run of the fleet file is called digits"),
        ({"name": "two"}, "name: the definition is that of two"),
        ({"checkpoint_dir": "ckpt"}, "checkpoint_dir: ckpt: it is no bucket and no whole path"),
        ({"checkpoint_dir": "/home/alice/../bob"}, "checkpoint_dir: /home/alice/../bob: it is no"),
        ({"checkpoint_dir": f"{ROOTS}/../../../etc/ssh"}, "checkpoint_dir: /var/lib/tpu-fleet/.."),
        ({"checkpoint_dir": f"{ROOTS}/submitted/two/x"}, "checkpoint_dir: /var/lib/tpu-fleet/sub"),
        ({"checkpoint_dir": f"{ROOTS}/checkpoints/two"}, "checkpoint_dir: /var/lib/tpu-fleet/che"),
        ({"checkpoint_dir": ROOTS}, "checkpoint_dir: /var/lib/tpu-fleet: a run has no folder"),
    ],
)
def test_what_no_slice_may_run(more: dict[str, Any], why: str) -> None:
    changed = replace(ONE, **more)
    name = "digits" if changed.name == "digits" else "one"
    assert any(found.startswith(why) for found in refusals(changed, SETTINGS, name))


def test_a_state_is_that_of_its_definition() -> None:
    run = objects.of_definition(ONE, 1, "b" * 32, 2.0)
    assert differs(run, ONE) == ""
    assert differs(replace(run, priority=9), ONE)
    assert differs(replace(run, person="bob"), ONE)


def test_a_person_without_an_account_here_has_one_elsewhere() -> None:
    run = objects.of_definition(replace(ONE, person="bob"), 1, "b" * 32, 2.0)
    assert unfit(run, SETTINGS) == "bob has no account on pair"
    assert unfit(replace(run, person="alice"), SETTINGS) == ""


def test_the_agent_has_the_collections_own_objects() -> None:
    assert objects.__file__ is not None
    assert collection.VERSION == objects.VERSION
