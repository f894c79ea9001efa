"""A venv that a run needs is built from the kept wish, or there is a reason in one line.

`tests/cloud/queue_agent/test_builds.py` has builds by the real program.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import again, need
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.place import Place, write
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.wish import Wish


def no_engine(*_words: Any) -> Path:
    raise AssertionError("nothing may be applied")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path / "state", tmp_path / "programs", tmp_path / "logs")
    found.state.mkdir(mode=0o700)
    return found


def why(place: Place) -> str:
    assert need.main(place, no_engine, "jax") == 0
    return str(json.loads(place.needed("jax").read_text())["why"])


def test_a_machine_that_never_applied_the_role_says_so(place: Place) -> None:
    wish = Wish("here", ["first"], "", "", "", {})
    write(place.wishes, json.dumps([asdict(wish)]))
    told = "this machine does not apply roles to itself, so an apply has to build it"
    assert why(place) == told


def test_what_was_sent_and_is_gone_is_a_reason_in_one_line(place: Place) -> None:
    wish = Wish("here", ["python_env"], "a" * 64, "b" * 64, "", {})
    write(place.wishes, json.dumps([asdict(wish)]))
    assert "No such file or directory" in why(place)
    place.needed("jax").write_text("of an earlier build")
    assert "\n" not in why(place)


@pytest.mark.parametrize(("undeclared", "serves"), [([], True), (["run_queue"], False)])
def test_only_machines_that_serve_the_queue_have_the_unit(
    place: Place, tmp_path: Path, undeclared: list[str], serves: bool
) -> None:
    wish = Wish("here", ["python_env", "run_queue"], "", "", "", {}, undeclared=undeclared)
    own = Place(place.state, place.programs, place.logs, units=tmp_path / "units")
    again.keep(own, wish)
    unit = own.units / "tpu-fleet-venv@.service"
    assert unit.exists() is serves
    if serves:
        assert " need %i" in unit.read_text()
        again.keep(
            own, Wish("here", ["python_env", "run_queue"], "", "", "", {}, undeclared=["run_queue"])
        )
        assert not unit.exists()
