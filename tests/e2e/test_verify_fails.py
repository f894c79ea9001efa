"""Each verify.yml must fail on a host that its role has not touched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOLECULE = ROOT / "extensions" / "molecule"
ROLES = sorted(path.parent.parent.name for path in (ROOT / "roles").glob("*/tasks/main.yml"))
SCENARIOS = sorted(path.parent.name for path in MOLECULE.glob("*/verify.yml"))
PORT = "8472"
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


def test_every_role_has_its_two_scenarios() -> None:
    assert sorted(name for role in ROLES for name in (role, f"{role}_defaults")) == SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_verify_fails_where_the_role_was_skipped(scenario: str, state: Path) -> None:
    done = playbook(state, MOLECULE / scenario / "verify.yml")
    recap = {
        host: dict(re.findall(r"(\w+)=(\d+)", line))
        for host, line in re.findall(r"^([\w-]+) +: (ok=.*)$", done.stdout, re.MULTILINE)
    }
    failed = {host for host, counts in recap.items() if counts["failed"] == "1"}
    unreachable = {host for host, counts in recap.items() if counts["unreachable"] != "0"}
    assert failed == set(WORKERS), done.stdout + done.stderr
    assert not unreachable, done.stdout
