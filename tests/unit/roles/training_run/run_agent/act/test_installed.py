"""When an agent is another program than the one that runs."""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from run_agent.act import installed

SOURCE = "VALUE = 1\n"


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


def test_all_of_it_is_kept_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in ("run_agent/agent.py", "run_agent/act/program.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SOURCE)
    (tmp_path / "run_agent/broken.py").write_text("(")
    installed.keep_compiled(tmp_path)
    kept = Path(cache_from_source(tmp_path / "run_agent/act/program.py"))
    assert kept.exists()
    assert Path(cache_from_source(tmp_path / "run_agent/agent.py")).exists()
    before = kept.stat().st_mtime_ns
    installed.keep_compiled(tmp_path)
    assert kept.stat().st_mtime_ns == before
    os.utime(tmp_path / "run_agent/act/program.py", (1, 1))  # another version of the file
    installed.keep_compiled(tmp_path)
    assert kept.stat().st_mtime_ns != before
