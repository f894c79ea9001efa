"""What the roles put on machines, to the byte: another byte in a run's definition restarts the run.

Ansible evaluates the arguments of the roles' tasks for each case in _definitions/ROLE.yml. What it
finds is in _definitions/ROLE/CASE.json. Where a change is meant, run this file as a program,
with tests/support in PYTHONPATH: it writes them anew.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.loader import init_plugin_loader
from role_templates import ROLES, arguments, expression, read, variables_of

HERE = Path(__file__).with_name("_definitions")
# The tasks of a role whose arguments count, and what else counts of its variables.
TASKS = {
    "training_run": {
        "secrets": ("configure.yml", "Write root's private files"),
        "definitions": ("configure.yml", "Write the definitions and their units"),
        "gone": ("remove.yml", "Remove their definitions and units"),
        "check": ("main.yml", "Wait until the agents apply the declaration"),
    },
    "notebook_server": {"services": ("main.yml", "Run the services")},
    "tensorboard_server": {"services": ("main.yml", "Run the services")},
    "ray_cluster": {"services": ("main.yml", "Run Ray")},
}
VARIABLES = {
    "training_run": ("plan.waiting", "plan.trees"),
    "notebook_server": ("plan.own", "plan.settings"),
    "tensorboard_server": ("plan.own", "plan.settings"),
    "ray_cluster": ("plan.own", "plan.settings"),
}


def cases(role: str) -> dict[str, dict[str, Any]]:
    """Return the variables of each case. One that is like another has its variables, too."""
    found = read(HERE / f"{role}.yml")
    return {name: {**found.get(case.get("like"), {}), **case} for name, case in found.items()}


CASES = [(role, name) for role in TASKS for name in cases(role)]


def slurped(records: dict[str, Any]) -> dict[str, Any]:
    """Return what module slurp reads of the records of code trees."""
    texts = {tree: json.dumps(record).encode() for tree, record in records.items()}
    return {
        "results": [
            {"__training_run_tree": tree, "content": base64.b64encode(text).decode()}
            for tree, text in texts.items()
        ]
    }


def evaluated(role: str, case: dict[str, Any]) -> Any:
    """Return all that counts, as the golden files have it."""
    registered = {
        "__training_run_found": slurped(case.get("__records", {})),
        "__training_run_gone": [],
    }
    variables = variables_of(role, {**registered, **case})
    found = {
        name.removeprefix("plan."): expression(f"__{role}_{name}", variables)
        for name in VARIABLES[role]
    }
    for kind, (file, name) in TASKS[role].items():
        found[kind] = arguments(role, file, name, variables)
    return json.loads(json.dumps(found))


@pytest.mark.parametrize(("role", "name"), CASES)
def test_what_lands_on_a_host_is_the_same_to_the_byte(role: str, name: str) -> None:
    golden = json.loads((HERE / role / f"{name}.json").read_text())
    assert evaluated(role, cases(role)[name]) == golden


def test_every_golden_file_has_its_case() -> None:
    assert sorted((path.parent.name, path.stem) for path in HERE.glob("*/*.json")) == sorted(CASES)


def test_the_agent_is_installed_as_it_is_here() -> None:
    role = "training_run"
    found = arguments(role, "install.yml", "Install the agent", variables_of(role, {}))["files"]
    program, *rest, agent, hook, older = found
    assert program == {
        "path": "/usr/local/bin/tpu-fleet-run",
        "mode": "0755",
        "content": '#!/bin/sh\nexec /usr/bin/python3 -I /opt/tpu-fleet/tpu_fleet_run.py "$@"\n',
    }
    for folder, name in ((agent, "run_agent"), (hook, "python_hook")):
        assert folder == {"path": f"/opt/tpu-fleet/{name}", "state": "directory", "purge": "*.py"}
    assert older == {"path": "/opt/tpu-fleet/hang_hook/sitecustomize.py", "state": "absent"}
    sources = ROLES / role / "files"
    assert {file["path"]: file["content"] for file in rest} == {
        f"/opt/tpu-fleet/{path.relative_to(sources)}": path.read_text()
        for path in sources.rglob("*.py")
    }
    assert all(file.keys() == {"path", "content"} for file in rest)
    # A start between two files finds what it imports.
    names = [file["path"].removeprefix("/opt/tpu-fleet/") for file in rest]
    rooms = [name for name in names if name.count("/") == 2]
    assert names[: len(rooms)] == rooms
    assert names[-1] == "tpu_fleet_run.py"


# Ray opens its ports itself, which docs/security.md says.
OPENS_PORTS = {"ray_cluster"}


@pytest.mark.parametrize("role", sorted(set(TASKS) - {"training_run"} - OPENS_PORTS))
def test_no_user_can_take_the_port_of_a_service(role: str) -> None:
    found = [
        service
        for path in sorted((HERE / role).glob("*.json"))
        for service in json.loads(path.read_text())["services"]["services"]
    ]
    assert found
    for service in found:
        words = " ".join(service["command"])
        assert service["proxied"], service["name"]
        assert f"/run/tpu-fleet/{service['name']}/http" in words
        # A program that is given an address listens there; every user could read a kernel on TCP.
        assert "127.0.0.1" not in words
        assert ("jupyterlab" in words) == ("--KernelManager.transport=ipc" in words)


if __name__ == "__main__":
    init_plugin_loader([str(ROLES.parent / "collections")])
    for role, name in CASES:
        (HERE / role).mkdir(exist_ok=True)
        text = json.dumps(evaluated(role, cases(role)[name]), indent=1, ensure_ascii=False)
        (HERE / role / f"{name}.json").write_text(f"{text}\n")
