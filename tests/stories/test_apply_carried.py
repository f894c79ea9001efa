"""A machine that reaches no package index applies the roles to itself all the same.

`.venv/bin/pytest tests/stories/test_apply_carried.py`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fleet import NOTHING, Fleet

HOST = "island"
FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_apply": "host",
    "fleet_apply_environment": "carried",
    "fleet_slices": [{"name": HOST, "accelerator_type": "v4-8", "zone": "us-central2-b"}],
    "host_base_packages": ["sudo", "tzdata"],
    # Nobody is there.
    "python_env_index_url": "http://127.0.0.1:9/simple",
    "user_accounts_users": [
        {"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]},
    ],
}


@pytest.fixture(scope="module")
def fleet(_cloud: Fleet) -> Iterator[Fleet]:
    """The machine, which has set itself up."""
    with _cloud.holding(FLEET) as fleet:
        yield fleet


def test_what_applies_the_roles_comes_with_them(fleet: Fleet) -> None:
    assert fleet.ssh(HOST, "id -u alice") == "2001\n"
    there = fleet.ssh(HOST, "sudo ls /opt/tpu-fleet /opt/tpu-fleet/apply").split()
    assert any(name.startswith("ansible-") for name in there)
    # What would have fetched it from an index.
    assert "uv" not in there
    assert f"as declared, nothing to do: {HOST}" in fleet.play("site.yml")
