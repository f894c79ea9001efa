"""When an agent is another program than the one that runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_agent.act import installed


@pytest.mark.parametrize("name", ["tpu_fleet_run.py", "run_agent/talk/wire.py", "run_agent/new.py"])
def test_it_is_another_when_a_file_is_replaced_or_added(tmp_path: Path, name: str) -> None:
    (tmp_path / "run_agent/talk").mkdir(parents=True)
    for file in ("tpu_fleet_run.py", "run_agent/talk/wire.py"):
        (tmp_path / file).write_text("pass\n")
    (tmp_path / "other.py").write_text("pass\n")
    before = installed.stamp(tmp_path)
    (tmp_path / "other.py").write_text("1\n")
    assert installed.stamp(tmp_path) == before
    (tmp_path / "copy").write_text("pass\n")
    (tmp_path / "copy").rename(tmp_path / name)
    assert installed.stamp(tmp_path) != before
