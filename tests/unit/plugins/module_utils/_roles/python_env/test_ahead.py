"""What is built while earlier roles still wait for packages."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.work import can_build_ahead
from ansible_collections.tpu.fleet.plugins.module_utils._host.work import Failed
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import ahead


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ahead, "LOCK", tmp_path / "state" / "venvs.lock")
    return tmp_path / "state" / "venvs.lock"


def venv(name: str = "jax", **more: Any) -> Any:
    spec = {"name": name, "owner": "root", "requirements": "", "editable": ()}
    own = {key: more.pop(key) for key in tuple(more) if key in spec}
    rest = {"site": object(), "error": "", "files": {}, **more}
    return SimpleNamespace(spec=SimpleNamespace(**{**spec, **own}), **rest)


class Job:
    """The phases of a job, which write down what they were given."""

    tools: Any = None

    def __init__(self, folder: Path, venvs: list[Any], check: bool = False) -> None:
        self.folder, self.venvs, self.check = folder, venvs, check
        self.wrong: list[str] = []
        self.params: dict[str, Any] = {"prune": True, "locks": {}, "shared_cache_url": ""}

    def prepare(self) -> dict[str, Any]:
        (self.folder / "prepared").write_text(" ".join(v.spec.name for v in self.venvs))
        return {"locks": {"wish": "lock"}}

    def build(self) -> None:
        time.sleep(0.5)
        told = " ".join(str(self.params.get(name)) for name in ("locks", "resolved", "prune"))
        (self.folder / "built").write_text(told)


def begin(job: Any) -> bool:
    """Begin to build with a job that only looks like one."""
    return ahead.begin(job)


def test_the_role_waits_for_what_was_begun(tmp_path: Path) -> None:
    others = [
        venv("of-alice", owner="alice"),
        venv("of-a-tree", requirements="digits/requirements.txt"),
        venv("with-files", files={"/x": "y"}),
        venv("editable", editable=("digits",)),
        venv("nowhere", site=None),
        venv("wrong", error="it is"),
    ]
    assert begin(Job(tmp_path, [venv(), *others]))
    with ahead.alone(wait=False) as free:
        assert not free
    assert not begin(Job(tmp_path, [venv()]))
    with ahead.alone() as free:
        assert free
        assert (tmp_path / "prepared").read_text() == "jax"
        # What this worker resolved itself, and no lock of another one.
        assert (tmp_path / "built").read_text() == "{} {'wish': 'lock'} False"


def test_what_cannot_be_read_yet_is_left_to_the_role(tmp_path: Path) -> None:
    job = Job(tmp_path, [venv()])
    job.wrong = ["fleet_venvs: venv 'jax': ... this host has no code tree 'digits'"]
    assert not begin(job)


def test_what_fails_is_left_to_the_role(tmp_path: Path) -> None:
    class Broken(Job):
        def prepare(self) -> dict[str, Any]:
            raise Failed("no index")

    assert begin(Broken(tmp_path, [venv()]))
    with ahead.alone():
        assert not (tmp_path / "built").exists()


@pytest.mark.parametrize("answers", [True, False])
def test_only_through_the_cache_of_the_slice(tmp_path: Path, answers: bool) -> None:
    job = Job(tmp_path, [venv()])
    job.params["shared_cache_url"] = cache = "http://10.0.0.1:8001"
    job.tools = SimpleNamespace(shared=cache if answers else "", at_work=contextlib.nullcontext)
    assert begin(job)
    with ahead.alone():
        assert (tmp_path / "built").exists() is answers


def nothing_to_do(folder: Path) -> Job:
    return Job(folder, [venv(owner="alice")])


def only_a_check(folder: Path) -> Job:
    return Job(folder, [venv()], check=True)


@pytest.mark.parametrize("job", [nothing_to_do, only_a_check])
def test_nothing_is_begun(tmp_path: Path, lock: Path, job: Callable[[Path], Job]) -> None:
    assert not begin(job(tmp_path))
    assert not lock.exists()


@pytest.mark.parametrize(
    ("roles", "can"),
    [
        (["host_base", "python_env"], True),
        (["host_base", "user_accounts"], False),
        (["host_base", "data_disk", "python_env"], False),
        (["host_base", "nfs_share", "python_env"], False),
        (["host_base", "bucket_mount", "python_env"], False),
    ],
)
def test_no_environment_is_built_below_what_is_mounted_later(roles: list[str], can: bool) -> None:
    assert can_build_ahead(roles) is can
