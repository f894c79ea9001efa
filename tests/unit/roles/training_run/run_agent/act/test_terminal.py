"""Files that root may run."""

from __future__ import annotations

from pathlib import Path

from run_agent.act import (
    terminal,
)


def test_root_runs_only_what_nobody_else_can_change(tmp_path: Path) -> None:
    program = tmp_path / "py-spy"
    program.touch(0o755)
    tmp_path.chmod(0o777)
    assert not terminal.only_roots(program)
    assert not terminal.only_roots(tmp_path / "missing")
