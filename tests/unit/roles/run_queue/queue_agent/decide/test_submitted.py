"""A submitted run as the role of declared runs would define it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.run_queue.plan import plan
from ansible_collections.tpu.fleet.plugins.module_utils._schema.amounts import for_machines
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import (
    defaults_of_entries,
    options_of,
)
from queue_agent.decide import submitted
from queue_agent.decide.messages import RUN, Order
from queue_agent.decide.settings import parse
from queue_agent.shared._queue.objects import Definition

SHA = "a" * 64
ORDER = Order(RUN, "one", SHA, 3, failures=2)
ONE = Definition("one", "alice", "lab", ("python3", "train.py", "--name", "a b"), "jax", 1.0)


def variables(**more: Any) -> dict[str, Any]:
    """Return the variables of the role, as the filter role_plan gives them to its plan."""
    own = {name: option.get("default") for name, option in options_of("run_queue").items()}
    own |= {
        "run_queue_queue": {"bucket": "gs://lab/queue", "submit_as": {"alice": ["lab"]}},
        "run_queue_users": [{"name": "alice", "keys": ["ssh-ed25519 AAAA alice@laptop"]}],
        "run_queue_runs": [{"name": "digits", "slices": ["pair"], "command": "secret"}],
        "run_queue_venvs": [{"name": "jax", "path": "/opt/jax"}],
        "run_queue_slice": "pair",
        "run_queue_slice_hosts": ["10.0.0.2", "10.0.0.3"],
        "run_queue_worker_index": 1,
        "run_queue_zone": "us-central2-b",
        "run_queue_node": "123",
        "run_queue_accelerator_type": "v4-16",
        **more,
    }
    return {name: for_machines(name, value) for name, value in own.items()}


def settings(**more: Any) -> Any:
    runs = "training_run_runs"
    defaults = {runs: for_machines(runs, defaults_of_entries("training_run")[runs])}
    return parse(json.loads(plan(variables(**more), defaults)["settings"]))


def definition_of(definition: Definition, **more: Any) -> dict[str, Any]:
    files = submitted.files_of(definition, ORDER, settings(**more), "/code/one")
    (found,) = [file for file in files if file["path"].endswith("/one.json")]
    return dict(json.loads(found["content"]))


def test_the_settings_are_those_of_the_role() -> None:
    found = settings()
    assert (found.slice, found.type, found.chips, found.worker) == ("pair", "v4-16", 8, 1)
    assert (found.bucket, found.folder, found.port) == ("lab", "queue/", 308)
    assert found.users == {"alice": ("alice", "lab")}
    assert found.declared == {"digits"}
    assert "secret" not in json.dumps(dict(found.training))


def test_the_files_are_those_of_a_declared_run_and_a_mark_before_them() -> None:
    files = submitted.files_of(ONE, ORDER, settings(), "/code/one")
    assert [file["path"].rpartition("/")[2] for file in files] == [
        *("one.submitted", "one.env.json", "one.json", "tpu-fleet-run@one.service"),
    ]
    assert json.loads(files[0]["content"]) == {"person": "alice", "definition": SHA, "claim": 3}
    assert submitted.gone_paths("one")[-1].endswith("/one.submitted")
    assert {file["path"] for file in files} <= set(submitted.gone_paths("one"))


def test_the_definition_has_what_was_submitted() -> None:
    options = {"grace": "10s", "needs_tpu": False, "results": ["out"], "min_free": "1GiB"}
    found = definition_of(replace(ONE, code="b" * 64, retries=7, options=options))
    assert found["command"] == "python3 train.py --name 'a b'"
    assert (found["user"], found["venv"], found["worker"]) == ("lab", "/opt/jax", 1)
    assert (found["workdir"], found["code"]) == ("/code/one", {"tree": "", "version": "b" * 64})
    assert (found["grace_seconds"], found["needs_tpu"], found["retries"]) == (10, "false", 7)
    assert found["min_free_bytes"] == 1 << 30
    assert found["submitted"] == {"person": "alice", "definition": SHA, "claim": 3}
    # Those on other slices count here.
    assert found["failures_before"] == 2


@pytest.mark.parametrize(
    ("place", "folder"),
    [(None, ""), ("", "/var/lib/tpu-fleet/checkpoints/one"), ("gs://lab/{region}", "us-central2")],
)
def test_its_checkpoints(place: str | None, folder: str) -> None:
    found = definition_of(replace(ONE, checkpoint_dir=place))["checkpoint_dir"]
    assert found == folder or found == f"gs://lab/{folder}"


def test_it_has_no_port_of_a_declared_run() -> None:
    taken = [
        {"name": f"d{number}", "slices": ["pair"], "peer_port": 288 + number}
        for number in range(20)
        if number != 7
    ]
    assert definition_of(ONE, run_queue_runs=taken)["peer_port"] == 295


@pytest.mark.parametrize("options", [{"grace": "500ms"}, {"hang_after": "1.5h"}, {"min_free": "x"}])
def test_an_amount_that_a_run_cannot_have(options: dict[str, str]) -> None:
    with pytest.raises(submitted.Unfit, match=next(iter(options))):
        submitted.run_of(replace(ONE, options=options), "pair", "")


def test_its_grace() -> None:
    assert submitted.grace_of(ONE, settings()) == 30.0
    assert submitted.grace_of(replace(ONE, options={"grace": "2m"}), settings()) == 120.0
    assert submitted.grace_of(replace(ONE, options={"grace": "5ms"}), settings()) == 30.0
