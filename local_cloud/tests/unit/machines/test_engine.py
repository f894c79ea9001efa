"""Where the machines are kept, and who may look."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tpu_local_cloud.machines import layout
from tpu_local_cloud.machines.engine import Engine
from tpu_local_cloud.machines.host import EngineSettings


def test_only_root_may_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are disks, a folder that all users may write, and programs with setuid bits."""
    monkeypatch.setattr(layout, "SHARED_RUN", tmp_path / "run")
    monkeypatch.setattr(layout, "SHARED_LIB", tmp_path / "lib")
    made = layout.Layout(tmp_path / "state")
    # A cloud of an earlier version has them for everybody.
    made.home.mkdir(parents=True, mode=0o755)
    Engine(made, EngineSettings(False, None, (), "systemd")).prepare()
    for folder in (made.home, made.run_dir):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
