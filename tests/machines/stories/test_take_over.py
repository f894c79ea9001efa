"""Machines that the first release set up are taken over, and their runs go on undisturbed.

Needs the repository's history. `.venv/bin/pytest tests/machines/stories/test_take_over.py`
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import (
    FLEET_NAMES,
    own_name,
    renamed,
)
from fleet import NOTHING, ROOT, Fleet, changes, wait_until

# In CI tests/unit has the files of earlier versions that are read.
pytestmark = pytest.mark.night

FIRST_RELEASE = "fc0d642b"
HOST = "elder"
FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_allocations": "unrestricted",
    "fleet_slices": [{"name": HOST, "accelerator_type": "v4-8", "zone": "us-central2-b"}],
    "fleet_base_packages": ["sudo", "tmux", "tzdata", "python3-venv"],
    "fleet_shell_packages": [],
    "fleet_users": [
        {"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]},
    ],
    "fleet_venvs": [
        {"name": "tools", "path": "/opt/venvs/tools", "python": "3.11", "packages": ["idna"]}
    ],
    "fleet_code": [
        {"name": "digits", "user": "root", "local_path": str(ROOT / "examples" / "jax")}
    ],
    "fleet_secrets": [{"name": "keys", "user": "alice", "env": {"ONE": "secret"}}],
    "fleet_runs": [
        {
            "name": "long",
            "slices": [HOST],
            "user": "alice",
            "venv": "tools",
            "code": "digits",
            "secrets": ["keys"],
            "command": "sleep 100000",
        }
    ],
}

# Entries in the words of that version.
EARLIER_WORDS: dict[str, Any] = {
    "code_checkout_trees": [
        {"name": "digits", "owner": "root", "folder": str(ROOT / "examples" / "jax")}
    ],
    "env_secrets_sets": [{"name": "keys", "owner": "alice", "variables": {"ONE": "secret"}}],
}


def as_it_was(fleet: dict[str, Any]) -> dict[str, Any]:
    """Return a fleet file with the names of the variables of roles, as that version takes it."""
    return {own_name(name): value for name, value in fleet.items()}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the first release."""
    folder = tmp_path_factory.mktemp("earlier")
    archive = subprocess.run(
        ["git", "archive", FIRST_RELEASE], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


@pytest.fixture
def elders(earlier: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A cloud, and the inventory as that version shipped it."""
    fleet = Fleet(tmp_path_factory.mktemp("elders"), as_it_was(NOTHING), earlier / "inventory")
    fleet.up()
    try:
        yield fleet
    finally:
        fleet.down()


@pytest.mark.parametrize("apply", ["push", "host"])
def test_its_machines_and_runs_are_taken_over(elders: Fleet, earlier: Path, apply: str) -> None:
    fleet = elders
    fleet.declare({**as_it_was(FLEET), **EARLIER_WORDS, "fleet_apply": apply})
    done = subprocess.run(
        ["ansible-playbook", "site.yml"],
        cwd=earlier,
        env={**fleet.env, "PWD": str(earlier)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout

    def running() -> bool:
        status = fleet.status(HOST, "long")
        return status.get("state") == "running" and bool(status["pid"])

    wait_until("the run", running, 90)
    before = fleet.status(HOST, "long")
    # The new names, as one does by hand, and what applies it by default.
    shipped = fleet.inventory / "group_vars" / "all" / "fleet.yml"
    shipped.write_text(renamed(shipped.read_text(), FLEET_NAMES))
    fleet.declare(FLEET)
    fleet.play("site.yml")
    wait_until("the run after it", running, 30)
    after = fleet.status(HOST, "long")
    assert [after[key] for key in ("pid", "attempt")] == [before[key] for key in ("pid", "attempt")]
    fleet.ssh(HOST, f"sudo kill -0 {before['pid']}")
    assert changes(fleet.play("site.yml"))[HOST] == (0, 0, 0)
