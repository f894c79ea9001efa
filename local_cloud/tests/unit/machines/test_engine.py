"""Where the machines are kept, and who may look."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tpu_local_cloud.machines import layout
from tpu_local_cloud.machines.base import MachineError
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


class Podman:
    """Stands in for podman: its first removals end with an error."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, *errors: str) -> None:
        self.errors = [*errors]
        self.calls: list[tuple[str, ...]] = []
        monkeypatch.setattr(engine, "podman", self)
        monkeypatch.setattr("tpu_local_cloud.machines.engine.time.sleep", lambda _seconds: None)

    def __call__(self, *words: str, timeout: float) -> str:
        self.calls.append(words)
        assert timeout > 0
        if self.errors:
            raise MachineError(self.errors.pop(0))
        return ""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(layout.Layout(tmp_path), EngineSettings(False, None, (), "systemd"))


SLOW = "podman rm: exit 125: removing container 1: given PIDs did not die within timeout"


def test_a_machine_whose_processes_end_slowly_is_removed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    podman = Podman(engine, monkeypatch, SLOW, SLOW)
    engine.discard("one")
    assert podman.calls == [("rm", "--force", "--ignore", "--time=0", "one")] * 3


@pytest.mark.parametrize(("error", "seconds"), [("no such storage", 60.0), (SLOW, -1.0)])
def test_other_errors_of_a_removal_and_its_end_are_reported(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, error: str, seconds: float
) -> None:
    podman = Podman(engine, monkeypatch, error, error)
    with pytest.raises(MachineError, match=error[:12]):
        engine.discard("one", timeout=seconds)
    assert len(podman.calls) == 1
