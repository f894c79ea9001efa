"""Which machines Ansible pushes to, although they apply the roles to themselves by default."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.action.apply import (
    idle_runs,
    unfinished,
    without_engine,
    without_ssh,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.run import Outcome


class HostVars:
    """What Ansible gives plugins: the variables of each host, as they are written."""

    def __init__(self, hosts: dict[str, dict[str, Any]]) -> None:
        self._hosts = hosts

    def raw_get(self, host: str) -> dict[str, Any]:
        return self._hosts[host]


@pytest.mark.parametrize(
    ("variables", "pushed"),
    [
        ({}, False),
        ({"ansible_connection": "ssh"}, False),
        ({"ansible_connection": "ansible.builtin.ssh"}, False),
        ({"ansible_connection": "smart"}, False),
        ({"ansible_connection": "local"}, True),
        ({"ansible_connection": "containers.podman.podman"}, True),
    ],
)
def test_a_machine_that_is_not_reached_by_ssh(variables: dict[str, Any], pushed: bool) -> None:
    found = without_ssh(["one"], HostVars({"one": variables}))
    assert bool(found) is pushed
    if pushed:
        assert found["one"] == f"its ansible_connection is {variables['ansible_connection']}."


def test_a_machine_that_cannot_have_ansible_core() -> None:
    outcomes = [
        Outcome(
            "old", "failed", problem="ansible-core cannot be installed: no Python", no_engine=True
        ),
        Outcome("full", "failed", problem="no room"),
        Outcome("fine", "ok"),
    ]
    assert without_engine(outcomes) == {"old": "ansible-core cannot be installed: no Python."}


@pytest.mark.parametrize(
    ("pushed", "failed", "found"),
    [
        ([], [], []),
        (["a"], [], ["a"]),
        (["a"], ["b"], ["a", "b"]),
        # Else Ansible would end the playbook.
        ([], ["a"], ["a", "b"]),
        ([], ["a", "b"], ["a", "b"]),
    ],
)
def test_machines_that_are_not_as_declared(
    pushed: list[str], failed: list[str], found: list[str]
) -> None:
    assert unfinished(["a", "b"], pushed, {host: {} for host in failed}) == found


FAILED = {"run": "r", "state": "failed", "reason": ""}


@pytest.mark.parametrize(
    ("outcomes", "pushed", "found"),
    [
        # Nothing to do: the look that found that has seen the runs.
        (
            [Outcome("a-w0", "ok", idle_runs=[FAILED]), Outcome("a-w1", "ok")],
            [],
            {"a-w0": [FAILED]},
        ),
        (
            [Outcome("a-w0", "ok", idle_runs=[]), Outcome("a-w1", "ok", idle_runs=[])],
            [],
            {"a-w0": []},
        ),
        # One of them is between two states.
        ([Outcome("a-w0", "ok"), Outcome("a-w1", "ok")], [], {}),
        # The run may be about to start on the other worker.
        (
            [Outcome("a-w0", "ok", idle_runs=[FAILED]), Outcome("a-w1", "ok", {"changed": 1})],
            [],
            {},
        ),
        ([Outcome("a-w0", "ok", idle_runs=[FAILED]), Outcome("a-w1", "failed")], [], {}),
        ([Outcome("a-w0", "ok", idle_runs=[FAILED])], ["a-w1"], {}),
    ],
)
def test_the_apply_has_seen_the_runs_where_it_had_nothing_to_do(
    outcomes: list[Outcome], pushed: list[str], found: dict[str, Any]
) -> None:
    slices = {"a-w0": "a", "a-w1": "a", "b-w0": "b"}
    other = Outcome("b-w0", "ok", {"changed": 1}, idle_runs=[FAILED])
    assert idle_runs(["a-w0", "b-w0"], [*outcomes, other], slices, pushed) == found
