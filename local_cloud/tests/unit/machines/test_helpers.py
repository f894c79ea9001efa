"""Of each helper of a cloud there is one, and it can be found and ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpu_local_cloud.machines.helpers import helper_pid, sole, stop_helper
from tpu_local_cloud.machines.layout import Layout


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr("tpu_local_cloud.machines.layout.SHARED_RUN", tmp_path / "run")
    layout = Layout(tmp_path / "cloud")
    layout.run_dir.mkdir(parents=True)
    return layout


def test_the_second_sees_that_there_is_one(layout: Layout) -> None:
    assert helper_pid(layout, "keeper") is None
    lock = sole(layout, "keeper")
    assert lock
    assert helper_pid(layout, "keeper") == os.getpid()
    assert helper_pid(layout, "agent") is None
    assert sole(layout, "keeper") is None
    lock.close()
    assert helper_pid(layout, "keeper") is None


def test_one_that_does_not_run_need_not_be_ended(layout: Layout) -> None:
    stop_helper(layout, "keeper")
