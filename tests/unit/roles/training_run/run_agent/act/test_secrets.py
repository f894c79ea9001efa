"""Sets of secrets before a start."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_agent.act import (
    definitions,
    secrets,
)
from run_definition import with_sets


def test_secrets_of_sets_come_from_the_program(tmp_path: Path) -> None:
    path, program = with_sets(tmp_path)
    keeper = secrets.Keeper(definitions.load(path))
    assert keeper.obstacle() == ""
    assert keeper.take() == {"A": "json --user alice own"}
    program.write_text("import sys; sys.exit('no set own here')")
    with pytest.raises(secrets.CannotGet, match="no set own here"):
        keeper.take()
    again = secrets.Keeper(definitions.load(path))
    assert again.obstacle() == "no set own here"
    program.unlink()
    # Google is not asked anew at every look.
    assert again.obstacle() == "no set own here"
    assert "declare them in fleet_secrets" in secrets.Keeper(definitions.load(path)).obstacle()


@pytest.mark.parametrize("asked", [True, False])
def test_changed_secrets_restart_only_who_asked(asked: bool, tmp_path: Path) -> None:
    path, _program = with_sets(tmp_path, restart_on_secret_change=asked)
    before = definitions.load(path)
    keeper = secrets.Keeper(before)
    assert not keeper.changed()
    (tmp_path / "new").write_text('A="2"\n')
    (tmp_path / "new").replace(tmp_path / "own.env")
    assert keeper.changed() is asked
    assert (definitions.load(path).definition != before.definition) is asked
