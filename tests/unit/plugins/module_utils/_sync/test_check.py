"""Why a version is not taken to a worker: what differs from what is applied, and by which key."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.snapshot import Entry
from ansible_collections.tpu.fleet.plugins.module_utils._sync.check import (
    differing,
    problems,
    rebuilt,
)
from ansible_collections.tpu.fleet.plugins.module_utils._sync.order import Order

RECORD = {"name": "toy", "kind": "snapshot", "owner": "bob", "dest": "/opt/tpu-fleet/code/toy"}


def definition(**more: Any) -> dict[str, Any]:
    return {
        "run": "digits",
        "command": "python train.py",
        "user": "bob",
        "hosts": ["10.0.0.1", "10.0.0.2"],
        "worker": 1,
        "workdir": "/old",
        "code": {"tree": "toy", "version": "old"},
        **more,
    }


def order(*runs: str, **more: Any) -> Order:
    expected = {run: {"definition": definition(worker=0), "environment": "e"} for run in runs}
    given: dict[str, Any] = {
        "runs": runs,
        "entry": {"name": "toy", "user": "bob", "local_path": "code"},
        "trees": [],
        "slice": "pair",
        "keep": 3,
        "digest": "d" * 64,
        "entries": [],
        "expected": expected,
    }
    return Order(**{**given, **more})


def found(
    asked: Order,
    definitions: dict[str, Any] | None = None,
    record: dict[str, Any] | None = None,
    environment: str = "e",
    enabled: tuple[str, ...] | None = None,
) -> list[str]:
    there = {"digits": definition()} if definitions is None else definitions
    environments = dict.fromkeys(there, environment)
    runs = list(there) if enabled is None else list(enabled)
    return problems(asked, there, environments, RECORD if record is None else record, runs)


def test_a_worker_that_is_as_declared_takes_it() -> None:
    assert found(order("digits")) == []


@pytest.mark.parametrize(
    ("there", "names"),
    [
        ({"command": "python other.py"}, ["command"]),
        ({"coordinator_port": 1, "user": "eve"}, ["port", "user"]),
        ({"hosts": ["10.0.0.9"]}, ["the addresses of its workers"]),
        ({"code": {"tree": "other", "version": "old"}}, ["code"]),
        ({"code": {"tree": "toy", "version": ""}}, ["restart_on_code_change"]),
        # Where it is, and which version, is what a sync changes.
        ({"worker": 0, "workdir": "/new", "code": {"tree": "toy", "version": "new"}}, []),
    ],
)
def test_what_differs_has_the_name_of_the_fleet_file(
    there: dict[str, Any], names: list[str]
) -> None:
    assert differing(definition(**there), definition()) == names


def test_a_run_that_is_not_as_declared_is_refused_by_its_keys() -> None:
    said = found(order("digits"), {"digits": definition(command="x", user="eve")}, environment="f")
    assert said == [
        "Run digits: the fleet file has other values than this worker for command, user and env. "
        "Run tpu-fleet apply first."
    ]
    assert "for enabled. " in found(order("digits"), enabled=())[0]
    assert "Run digits is not on this worker yet." in found(order("digits"), {})[0]


def test_a_run_that_keeps_its_code_is_refused_with_the_key() -> None:
    kept = definition(code={"tree": "toy", "version": ""})
    expected = {"digits": {"definition": kept, "environment": "e"}}
    said = found(order("digits", expected=expected), {"digits": kept})
    assert len(said) == 1
    assert "restart_on_code_change: false" in said[0]


def test_other_runs_of_the_tree_must_be_named_if_it_would_restart_them() -> None:
    runs = {"digits": definition(), "other": definition()}
    said = found(order("digits"), runs)
    assert len(said) == 1
    assert "other runs the same tree, toy, on slice pair" in said[0]
    assert "tpu-fleet sync digits other;" in said[0]
    assert found(order("digits", "other"), runs) == []
    # One that is switched off, or keeps its code, or has another tree, is not restarted.
    assert found(order("digits"), runs, enabled=("digits",)) == []
    for code in ({"tree": "toy", "version": ""}, {"tree": "own", "version": "old"}):
        assert found(order("digits"), {**runs, "other": definition(code=code)}) == []


def test_a_tree_that_is_not_as_declared_is_refused() -> None:
    assert "Tree toy was never installed here." in found(order("digits"), record={})[0]
    said = found(order("digits"), record={**RECORD, "owner": "eve"})
    assert said == [
        "Tree toy: owner is 'bob' in the fleet file and 'eve' here. Run tpu-fleet apply first."
    ]
    assert "kind is 'snapshot'" in found(order("digits"), record={**RECORD, "kind": "git"})[0]


def test_files_of_environments_are_left_to_the_role_that_builds_them() -> None:
    def entry(path: str, identity: str) -> Entry:
        return Entry(path, "file", False, identity * 64, 1)

    now = [entry("train.py", "b"), entry("env/base.txt", "c"), entry("env/more.txt", "d")]
    before = [entry("train.py", "a").line(), *(one.line() for one in now[1:])]
    asked = order("digits", entries=now, requirements={"env/base.txt": "jax"})
    assert rebuilt(asked, before) == []
    said = rebuilt(asked, [before[0], before[1], entry("env/more.txt", "e").line()])
    assert len(said) == 1
    assert "Environment jax is built from env/base.txt, and env/more.txt has changed." in said[0]
