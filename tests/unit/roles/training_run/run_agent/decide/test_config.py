"""Definitions as they are read, and what makes two runs the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_agent.decide import config
from run_definition import PUBLIC

# What each version of the role has written.
FIRST = {
    *("run", "user", "command", "hosts", "worker", "port", "peer_port", "coordinator_port"),
    *("workdir", "code", "venv", "checkpoint_dir", "retries", "fail_fast_seconds"),
    *("stop_signal", "grace_seconds", "multislice", "timing", "log"),
}


ROOT = Path(__file__).resolve().parents[6]


WRITTEN = [
    json.loads(file["content"])
    for golden in sorted((ROOT / "tests/unit/roles/_definitions/training_run").glob("*.json"))
    for file in json.loads(golden.read_text())["definitions"]["files"]
    if file["path"].endswith(".json")
]


def test_definitions_of_all_versions_are_read() -> None:
    """A host that an earlier version set up keeps its runs."""
    assert len(WRITTEN) > 30
    for public in WRITTEN:
        now = config.parse(public, {})
        before = config.parse({key: value for key, value in public.items() if key in FIRST}, {})
        assert (before.retries, before.hosts) == (now.retries, now.hosts)
        assert (before.fence, before.needs_tpu) == (public["run"], "auto")


def test_no_definition_has_what_an_earlier_agent_refuses() -> None:
    """An agent refuses a path, and a time, that it does not know; all else it leaves alone."""
    assert not [public for public in WRITTEN if "paths" in public]
    assert {name for public in WRITTEN for name in public["timing"]} == {"lost"}


def test_a_definition_is_read_as_it_is_written() -> None:
    (public,) = (public for public in WRITTEN if public["run"] == "digits-pair")
    read = vars(config.parse(public, {}))
    same = {key: value for key, value in public.items() if key in read and key != "timing"}
    assert {key: read[key] for key in same} == {**same, "code": "digits"}
    assert (read["timing"].lost, read["log_bytes"], read["log_files"]) == (12, 1024, 2)


def test_the_usual_step_pattern_is_what_the_role_says() -> None:
    spec = yaml.safe_load((ROOT / "roles/training_run/meta/argument_specs.yml").read_text())
    keys = spec["argument_specs"]["main"]["options"]["training_run_runs"]["options"]
    assert keys["step_pattern"]["default"] == config.STEP_PATTERN


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"worker": 0}, True),
        ({"peer_port": 288}, True),  # a run goes on when its agents take another port
        ({"hosts": ["10.0.0.9", "10.0.0.8"]}, True),
        ({"log": {"bytes": 1}}, True),
        ({"hang_seconds": 60, "min_free_bytes": 1, "needs_tpu": "true"}, True),  # the agent's only
        ({"command": "python other.py"}, False),
        ({"code": {"tree": "digits", "version": "def"}}, False),
        ({"retries": 9}, False),
        ({"slice": "solo"}, True),
    ],
)
def test_what_makes_another_definition(change: dict[str, Any], same: bool) -> None:
    before = config.definition_of(PUBLIC, {"A": "1"})
    assert (config.definition_of({**PUBLIC, **change}, {"A": "1"}) == before) is same
    assert config.definition_of(PUBLIC, {"A": "2"}) != before


def test_guesses_at_what_is_secret_are_expensive() -> None:
    shown = config.definition_of(PUBLIC, {"PASSWORD": "hunter2"})
    guesses = [
        json.dumps(
            [{k: v for k, v in PUBLIC.items() if k not in hidden}, {"PASSWORD": "hunter2"}],
            sort_keys=True,
            separators=(",", ":"),
        )
        for hidden in ((), ("worker", "hosts", "workdir"))
    ]
    assert shown not in {hashlib.sha256(guess.encode()).hexdigest()[:12] for guess in guesses}
    assert shown == config.definition_of(PUBLIC, {"PASSWORD": "hunter2"})
