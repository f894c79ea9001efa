"""Gangs of the example with torch_xla, and what one ends with that nothing disturbs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from example_python import torch_xla_python
from torch_xla_gang import Gang


@pytest.fixture(scope="session")
def python() -> str:
    """Return a Python with the example's requirements."""
    return torch_xla_python()


@pytest.fixture
def gang(python: str, tmp_path: Path) -> Iterator[Callable[..., Gang]]:
    """Make gangs of so many workers, with torch_xla or with PyTorch alone."""
    made: list[Gang] = []

    def make(workers: int, xla: bool = True) -> Gang:
        made.append(Gang(python, tmp_path / str(len(made)), workers, xla))
        return made[-1]

    yield make
    for program in (program for one in made for program in one.programs):
        program.kill()
        program.wait()


@pytest.fixture(scope="session")
def undisturbed(
    python: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., dict[str, Any]]:
    """Return what a gang of so many workers ends with that nothing disturbs."""
    known: dict[tuple[int, bool], dict[str, Any]] = {}

    def final(workers: int, xla: bool = True) -> dict[str, Any]:
        if (workers, xla) not in known:
            alone = Gang(python, tmp_path_factory.mktemp("undisturbed"), workers, xla)
            alone.start()
            assert alone.wait() == [0] * workers, alone.log(0)
            assert len({json.dumps(one) for one in alone.finals()}) == 1
            known[workers, xla] = alone.finals()[0]
        return known[workers, xla]

    return final
