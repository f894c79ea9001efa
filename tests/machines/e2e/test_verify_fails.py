"""Each verify.yml must fail on a host that its role has not touched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ports import free_port

ROOT = Path(__file__).resolve().parents[3]
MOLECULE = ROOT / "extensions" / "molecule"
ROLES = sorted(path.parent.parent.name for path in (ROOT / "roles").glob("*/tasks/main.yml"))
WITHOUT = "without_declarations"
SCENARIOS = sorted(path.parent.name for path in MOLECULE.glob("*/verify.yml"))
PORT = str(free_port())
WORKERS = ["mol", "pair-w0", "pair-w1"]


def playbook(state: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a playbook as molecule would, but on machines of this test's own."""
    return subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", f"{MOLECULE}/inventory/", path],
        cwd=ROOT,
        env={
            **os.environ,
            "TPU_FLEET_MOLECULE_PORT": PORT,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://127.0.0.1:{PORT}/",
            "TPU_FLEET_STATE_DIR": str(state),
            "TPU_FLEET_CLOUD_DIR": str(state / "cloud"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "false",
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The machines of the default scenario, fresh."""
    folder = tmp_path_factory.mktemp("verify")
    try:
        created = playbook(folder, MOLECULE / "default" / "create.yml")
        assert created.returncode == 0, created.stdout + created.stderr
        yield folder
    finally:
        removed = playbook(folder, MOLECULE / "default" / "destroy.yml")
        assert removed.returncode == 0, removed.stdout + removed.stderr


def verifications() -> dict[str, dict[str, Any]]:
    """Return the plays by what they verify: a role with declarations, or one without.

    Of several plays the first: whoever fails in it does not come to the next.
    """
    plays = {}
    for scenario in SCENARIOS:
        path = MOLECULE / scenario / "verify.yml"
        of_scenario = yaml.safe_load(path.read_text(encoding="utf-8"))
        if scenario == WITHOUT:
            plays |= {f"{scenario}: {play['name']}": play for play in of_scenario}
        else:
            plays[scenario] = of_scenario[0]
    return plays


def told(verified: str, play: dict[str, Any]) -> dict[str, Any]:
    """Return a play that says on which hosts another one fails, and fails nowhere."""
    say = {
        "name": "Say that this host does not pass",
        "ansible.builtin.debug": {"msg": f"FAILS|{verified}|{{{{ inventory_hostname }}}}|"},
    }
    # Nothing will come, however long one waits.
    tasks = [{**task, "retries": 1} if "until" in task else task for task in play["tasks"]]
    return {**play, "tasks": [{"name": "Verify", "block": tasks, "rescue": [say]}]}


@pytest.fixture(scope="module")
def failing(state: Path) -> dict[str, set[str]]:
    """What does not pass, and on which hosts; one ansible-playbook verifies all of it."""
    path = state / "verify.yml"
    plays = [told(name, play) for name, play in verifications().items()]
    path.write_text(yaml.safe_dump(plays, sort_keys=False, width=1000), encoding="utf-8")
    done = playbook(state, path)
    assert done.returncode == 0, done.stdout + done.stderr
    failing: dict[str, set[str]] = {}
    for verified, host in re.findall(r"FAILS\|([^|]+)\|([^|]+)\|", done.stdout):
        failing.setdefault(verified, set()).add(host)
    return failing


def test_every_role_is_verified_with_and_without_declarations() -> None:
    assert sorted([*ROLES, WITHOUT]) == SCENARIOS
    without = {f"{WITHOUT}: Verify {role}" for role in ROLES}
    assert set(verifications()) == {*ROLES, *without}


# Three fresh machines only to see whether each verify.yml can fail.
@pytest.mark.night
@pytest.mark.parametrize("verified", verifications())
def test_verify_fails_where_the_role_was_skipped(
    verified: str, failing: dict[str, set[str]]
) -> None:
    hosts = verifications()[verified]["hosts"]
    assert failing.get(verified) == set(WORKERS if hosts == "tpu" else hosts.split(":"))
