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
def gang(python: str, tmp_path: Path) -> Iterator[Callable[[int], Gang]]:
    """Make gangs of so many workers."""
    made: list[Gang] = []

    def make(workers: int) -> Gang:
        made.append(Gang(python, tmp_path / str(len(made)), workers))
        return made[-1]

    yield make
    for program in (program for one in made for program in one.programs):
        program.kill()
        program.wait()


@pytest.fixture(scope="session")
def undisturbed(
    python: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], dict[str, Any]]:
    """Return what a gang of so many workers ends with that nothing disturbs."""
    known: dict[int, dict[str, Any]] = {}

    def final(workers: int) -> dict[str, Any]:
        if workers not in known:
            alone = Gang(python, tmp_path_factory.mktemp("undisturbed"), workers)
            alone.start()
            assert alone.wait() == [0] * workers, alone.log(0)
            assert len({json.dumps(one) for one in alone.finals()}) == 1
            known[workers] = alone.finals()[0]
        return known[workers]

    return final
