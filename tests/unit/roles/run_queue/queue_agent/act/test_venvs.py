"""A worker has its machine build a venv, and sees how that goes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from queue_agent.act.units import CannotDo
from queue_agent.act.venvs import Venvs
from queue_agent.decide.messages import BUILDING, BUILT, NOT_ASKED, NOT_BUILT
from queue_agent.decide.settings import Places


class Units:
    """systemd, whose unit is active as long as `builds` says."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.builds = False
        self.error = ""

    def is_building(self, _venv: str) -> bool:
        return self.builds

    def build(self, venv: str) -> None:
        if self.error:
            raise CannotDo(self.error)
        self.begun.append(venv)
        self.builds = True


class Scene:
    """A machine whose fleet file has jax as a venv that is built on need."""

    def __init__(self, root: Path) -> None:
        self.places = Places(root)
        self.units = Units()
        settings = SimpleNamespace(venvs_on_need=frozenset({"jax"}))
        self.venvs = Venvs(cast("Any", settings), self.places, cast("Any", self.units))

    def write(self, folder: Path, name: str, **data: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(data))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_it_is_built_once_and_what_stands_is_not_built(scene: Scene) -> None:
    assert scene.venvs.follow("") == (NOT_ASKED, "")
    assert [scene.venvs.follow("jax") for _ in range(3)] == [(BUILDING, "")] * 3
    scene.write(scene.places.venvs, "jax")
    assert scene.venvs.follow("jax") == (BUILT, "")
    scene.venvs.follow("")
    assert scene.venvs.follow("jax") == (BUILT, "")
    assert scene.units.begun == ["jax"]


def test_a_failure_stays_until_it_is_wanted_again(scene: Scene) -> None:
    scene.write(scene.places.failed_builds, "jax", why="an older one")
    scene.venvs.follow("jax")
    scene.units.builds = False
    assert scene.venvs.follow("jax") == (BUILDING, "")  # not seen yet
    scene.write(scene.places.failed_builds, "jax", why="no index\nhas it")
    assert [scene.venvs.follow("jax") for _ in range(2)] == [(NOT_BUILT, "no index has it")] * 2
    assert scene.units.begun == ["jax"]
    scene.venvs.follow("")
    assert scene.venvs.follow("jax") == (BUILDING, "")
    assert scene.units.begun == ["jax"] * 2


def test_one_that_ends_without_a_word_has_failed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("queue_agent.act.venvs.time.monotonic", lambda: now[0])
    scene.venvs.follow("jax")
    scene.units.builds = False
    now[0] = 11.0
    state, why = scene.venvs.follow("jax")
    assert (state, why) == (NOT_BUILT, "it ended early: journalctl -u tpu-fleet-venv@jax")


def test_only_what_the_fleet_file_says_is_built(scene: Scene) -> None:
    scene.write(scene.places.venvs, "torch")
    for name in ("torch", "../venvs/torch"):
        assert scene.venvs.follow(name)[0] == NOT_BUILT
    scene.units.error = "Unit tpu-fleet-venv@jax.service not found."
    state, why = scene.venvs.follow("jax")
    assert state == NOT_BUILT
    assert why.startswith("this machine does not apply roles to itself: Unit")
    assert scene.units.begun == []
