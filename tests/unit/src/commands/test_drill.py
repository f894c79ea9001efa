"""What `tpu-fleet drill` refuses before the playbook begins."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tpu_fleet.commands import drill


def test_an_undeclared_run_is_refused_without_the_playbook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The playbook refused it with an option of Ansible's, which the command does not have."""
    monkeypatch.setattr(drill, "read_inventory", lambda: None)
    monkeypatch.setattr(drill, "declared_runs", lambda _inventory: [{"name": "digits"}])
    done = CliRunner().invoke(drill.drill, ["digit", "--check"])
    assert (done.exit_code, done.output) == (
        1,
        "Error: There is no declared run digit. Did you mean digits? There is digits.\n",
    )
