"""What an owner can stop holds up a build only once, and errors name the owner's files."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import (
    build as _venv_build,
)

# Root's own work is nobody's to stop: in the tests it is that of any other number.
OTHER = pwd.getpwuid(os.getuid() or pwd.getpwnam("nobody").pw_uid)


@pytest.fixture(autouse=True)
def nobody_slow() -> Iterator[None]:
    _venv_build.too_slow.clear()
    yield
    _venv_build.too_slow.clear()


def test_an_account_whose_work_has_no_end_is_waited_for_once() -> None:
    with pytest.raises(_venv_build.Failed, match="longer than its time limit") as first:
        _venv_build.acting(OTHER, lambda: time.sleep(60), 0.2)
    with pytest.raises(_venv_build.Failed) as second:
        _venv_build.acting(OTHER, lambda: "done")
    assert str(second.value) == str(first.value)


def test_work_that_fails_in_its_time_keeps_nothing_else_from_being_done() -> None:
    with pytest.raises(_venv_build.Failed, match="unexpected ValueError"):
        _venv_build.acting(OTHER, lambda: int("x"))
    assert _venv_build.acting(OTHER, lambda: "done") == "done"


def test_a_look_takes_a_minute_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    monkeypatch.setattr(_venv_build, "as_user", lambda _a, _w, seconds: given.append(seconds))
    _venv_build.acting(OTHER, lambda: None)
    assert given == [60.0]


def test_an_error_in_a_copy_names_the_file(tmp_path: Path) -> None:
    files = {f"/home/ada/{name}.txt": "idna\n" for name in "abcdefghijkl"}
    files["/home/ada/a.txt"] = "-r l.txt\n"
    first = _venv_build.copies(files, tmp_path)
    last = Path(first).read_text().split()[1]
    assert Path(last).read_text() == "idna\n"
    told = _venv_build.of_originals(f"error: odd: {last}:1:1, from {first}:1", files, tmp_path)
    assert told == "error: odd: /home/ada/l.txt:1:1, from /home/ada/a.txt:1"
