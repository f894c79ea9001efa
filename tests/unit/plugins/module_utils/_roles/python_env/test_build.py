"""What an owner can stop holds up a build only once, and errors name the owner's files."""

from __future__ import annotations

import fcntl
import os
import pwd
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import (
    apply as _venv_apply,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import (
    build as _venv_build,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.look import Venv
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.plan import VenvSpec

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


ME = pwd.getpwuid(os.getuid())
# Root where the tests are root, otherwise the user who builds root's environments.
BUILDS = pwd.struct_passwd((_venv_build.BUILDER, "x", ME.pw_uid, ME.pw_gid, "", "/", "/bin/sh"))
OWN = "root" if ME.pw_uid == 0 else _venv_build.BUILDER
PARAMS = {
    **{"uv_dir": "/opt/uv", "uv_version": "1", "index_credentials": [], "extra_index_urls": []},
    **dict.fromkeys(("ca_bundle", "index_url", "python_mirror", "python_list"), ""),
    **{"shared_cache_url": "", "environment": {}, "secret_environment": {}},
    **{"python_source": "uv", "tries": 1, "torch_index_url": "", "compile_bytecode": False},
}


def places_in(folder: Path) -> dict[str, str]:
    return {"cache_dir": str(folder / "uv"), "python_dir": str(folder / "pythons")}


def tools_in(folder: Path) -> _venv_build.Tools:
    return _venv_build.Tools({**PARAMS, **places_in(folder)}, pytest.fail)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_cache_that_root_builds_from_is_entered_by_no_other_user(tmp_path: Path) -> None:
    tools = tools_in(tmp_path)
    with tools.at_work():
        seen = tools.environment(BUILDS)
    cache = tmp_path / "uv" / OWN
    assert seen["UV_CACHE_DIR"] == str(cache)
    assert mode(cache) == 0o700


def test_temporary_files_lie_where_no_other_user_locks_them(tmp_path: Path) -> None:
    tools = tools_in(tmp_path)
    with tools.at_work():
        folders = {Path(tools.environment(user)["TMPDIR"]) for user in (ME, ME, BUILDS)}
        (folder,) = folders
        assert (mode(folder), folder.owner()) == (0o700, ME.pw_name)
    assert not folder.exists()


@pytest.mark.skipif(ME.pw_uid != 0, reason="acts as another user")
def test_the_temporary_files_of_a_user_are_made_and_removed_as_the_user(tmp_path: Path) -> None:
    tools = tools_in(tmp_path)
    with tools.at_work():
        folder = Path(tools.environment(OTHER)["TMPDIR"])
        assert (mode(folder), folder.owner()) == (0o700, OTHER.pw_name)
    assert not folder.exists()


def test_the_lock_of_pythons_is_roots(tmp_path: Path) -> None:
    folder = tmp_path / "pythons"
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / ".lock").chmod(0o666)
    with (folder / ".lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        _venv_build._lock_of_root(folder)
        with (folder / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert mode(folder / ".lock") == 0o600
    before = (folder / ".lock").stat().st_ino
    _venv_build._lock_of_root(folder)
    assert (folder / ".lock").stat().st_ino == before


def test_others_enter_an_environment_when_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv locks a file in the environment that it builds."""
    tools, folder, modes = tools_in(tmp_path), tmp_path / "venv", []

    def run(*argv: str, **_more: Any) -> str:
        modes.append(mode(folder))
        return "3.12.1"

    monkeypatch.setattr(tools, "run", run)
    monkeypatch.setattr(tools, "interpreter", lambda _wanted: sys.executable)
    monkeypatch.setattr(_venv_build, "unmet", lambda *_given: [])
    builder = _venv_build.Builder(tools, VenvSpec("env", str(folder), "3.12"), "cpu", {})
    builder.build("six==1.17.0\n", folder, _venv_build.Site(folder, ME, ME))
    assert set(modes) == {0o700}
    assert len(modes) >= 3
    assert mode(folder) == 0o755


MORE = {
    **{"accelerator": "cpu"},
    **{"venvs": [], "default_python": "3.12", "slice": ""},
    **{"locks": {}, "resolved": {}, "unresolved": {}},
    **{"parallel_builds": 2, "keep_builds": 1, "rebuild": False, "prune": False, "companions": []},
}


def a_venv(name: str, owner: str, error: str) -> Venv:
    spec = VenvSpec(name, f"/nonexistent/{name}", "3.12", owner=owner)
    return Venv(spec, {}, f"wish of {name}", error=error)


def test_who_stopped_earlier_work_is_not_waited_for_again(tmp_path: Path) -> None:
    """Preparing and building are two calls of the module."""
    assert _venv_build.why_slow(OTHER.pw_name) == ""
    stopped = {OTHER.pw_name: "it was stopped", "no-such-user": "x"}
    params = {**PARAMS, **MORE, **places_in(tmp_path), "stopped": stopped}
    job = _venv_apply.Job(params, False, pytest.fail)
    assert _venv_build.why_slow(OTHER.pw_name) == "it was stopped"
    with pytest.raises(_venv_build.Failed, match="it was stopped"):
        _venv_build.acting(OTHER, lambda: "done")
    assert job.venvs == []


def test_an_owner_who_stops_a_build_delays_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an environment is not a failure of the module: the play reports it at its end."""
    venvs = [a_venv("ours", "root", "no such package"), a_venv("theirs", OTHER.pw_name, "stopped")]
    stopped = {OTHER.pw_name: "it was stopped"}
    params = {**PARAMS, **MORE, **places_in(tmp_path), "stopped": stopped}
    job = _venv_apply.Job(params, False, pytest.fail)
    monkeypatch.setattr(job, "venvs", venvs)
    monkeypatch.setattr(job, "settled", lambda _venv: False)
    monkeypatch.setattr(job.tools, "have_uv", lambda: None)
    result = job.build()
    assert job.failed == ["Cannot build the environment 'ours'. no such package"]
    assert result["delayed"] == ["Cannot build the environment 'theirs'. stopped"]
    monkeypatch.setattr(job.tools, "interpreter", lambda _wanted: "")
    assert set(job.prepare()["stopped"]) == {OTHER.pw_name}
