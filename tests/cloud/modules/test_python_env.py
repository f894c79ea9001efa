"""Environments, built by the real uv from an index made up for the test."""

from __future__ import annotations

import functools
import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import (
    build as _venv_build,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import look as _venv_look
from ansible_collections.tpu.fleet.plugins.modules import python_env
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.settings import settings_of
from package_index import Index, serve

ROOT = Path(__file__).resolve().parents[3]

PYTHON = subprocess.run(
    ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
    capture_output=True,
    text=True,
    check=True,
).stdout.strip()
ME = pwd.getpwuid(os.getuid()).pw_name
# An owner without a home has no cache.
CACHELESS = {"UV_NO_CACHE": "1"}

# Builds what is root's, and is on every system.
BUILDER = "daemon"

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def index() -> Iterator[Index]:
    """Offer packages whose newest versions are not the ones asked for."""
    offered = Index()
    for version in ("1.0", "1.1"):
        offered.add("base", version)
    offered.add("tool", "2.0", ["base"])
    offered.add("pip", "99.0")
    server = serve(offered)
    offered.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield offered
    server.shutdown()
    server.server_close()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Make a folder that other users can reach."""
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def run(
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run the module in this process, with state and tools below the test's own folder."""
    uv = tmp_path / "uv" / "test" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.symlink_to(ROOT / ".venv" / "bin" / "uv")
    monkeypatch.setattr(_venv_build, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(_venv_build, "BUILDER", BUILDER)
    monkeypatch.setattr(_venv_look, "TREES", tmp_path / "trees")
    monkeypatch.setattr(_venv_build, "FIRST_PAUSE", 0.1)
    for name in (
        "UV_INDEX",
        "UV_DEFAULT_INDEX",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "UV_CACHE_DIR",
    ):
        monkeypatch.delenv(name, raising=False)

    def once(*venvs: dict[str, Any], check: bool = False, **more: Any) -> dict[str, Any]:
        variables = {
            "venvs": [
                {"path": str(tmp_path / "venvs" / venv["name"]), "user": ME, **venv}
                for venv in venvs
            ],
            "default_python": PYTHON,
            "uv_version": "test",
            "ca_bundle": "",
            "torch_index_url": "",
            "slice": "",
            "cache_dir": str(tmp_path / "cache"),
            "python_dir": str(tmp_path / "pythons"),
            "compile_bytecode": False,
            "index_url": f"{index.url}/simple",
            "accelerator": "cpu",
            # uv itself tries four times; that is enough for a test.
            "environment": {"UV_HTTP_RETRIES": "0"},
            "tries": 2,
            "prune": True,
            **{name: value for name, value in more.items() if name not in python_env.MORE},
        }
        named = {f"python_env_{name}": value for name, value in variables.items()}
        args: dict[str, Any] = settings_of("python_env", named)
        args["settings"]["uv_dir"] = str(tmp_path / "uv")
        args |= {name: more[name] for name in python_env.MORE if name in more}
        args["_ansible_check_mode"] = check
        with patch_module_args(args), pytest.raises(SystemExit) as ended:
            python_env.main()
        printed = capsys.readouterr()
        return {
            "rc": ended.value.code,
            "text": printed.out + printed.err,
            **json.loads(printed.out),
        }

    return once


def build_of(result: dict[str, Any], name: str) -> Path:
    return Path(result["venvs"][name]["build"])


def test_modules_are_compiled_but_for_tests(run: Run, index: Index) -> None:
    index.add("broken", "1.0", text="this is no Python")
    for compiles in (False, True):
        wanted = {"name": f"venv-{compiles}", "packages": ["base", "broken"]}
        result = run(wanted, compile_bytecode=compiles)
        assert result["rc"] == 0, result
        (site,) = build_of(result, wanted["name"]).glob("lib/python*/site-packages")
        assert (site / "base/tests/test_base.py").exists()
        folders = {str(path.parent.relative_to(site)) for path in site.rglob("*.pyc")}
        assert folders == ({"base/__pycache__", "pip/__pycache__"} if compiles else set())


def test_what_was_resolved_stays_and_can_be_gone_back_to(run: Run, index: Index) -> None:
    first = run({"name": "a", "packages": ["tool"]})
    assert (first["rc"], first["changed"]) == (0, True), first
    assert first["venvs"]["a"]["packages"] == {"base": "1.1", "tool": "2.0", "pip": "99.0"}
    # A newer one comes out; nobody asked for it.
    index.add("base", "1.2")
    index.asked.clear()
    assert run({"name": "a", "packages": ["tool"]})["changed"] is False
    assert index.asked == []
    second = run({"name": "a", "packages": ["tool", "base==1.2"]})
    assert second["venvs"]["a"]["packages"]["base"] == "1.2"
    assert build_of(first, "a").exists(), "what ran in it goes on"
    index.away = True
    back = run({"name": "a", "packages": ["tool"]})
    assert (back["rc"], build_of(back, "a")) == (0, build_of(first, "a"))


def test_one_for_runs_is_resolved_now_and_built_when_needed(run: Run, index: Index) -> None:
    later = {"name": "a", "packages": ["tool"], "on_need": True}
    first = run(later)
    assert (first["rc"], first["changed"], first["venvs"]) == (0, False, {}), first
    # What is newer by then is not taken: all workers know the same versions since the apply.
    index.add("base", "1.2")
    assert run(later)["changed"] is False
    other = run({**later, "packages": ["base"]}, needed=["a"])
    assert "has changed since the last apply" in other["msg"]
    built = run(later, needed=["a"])
    assert (built["changed"], built["venvs"]["a"]["packages"]["base"]) == (True, "1.1"), built
    # It is kept, and follows its declaration like all others.
    assert run(later)["changed"] is False
    new = run({**later, "packages": ["tool", "base==1.0"]})
    assert new["venvs"]["a"]["packages"]["base"] == "1.0"
    unknown = run({"name": "b", "packages": ["nothing"], "on_need": True})
    assert unknown["rc"] == 1
    assert "fleet_venvs (name: b).packages[0] = 'nothing': no index has" in unknown["msg"]
    gone = run()
    assert not build_of(new, "a").exists()
    assert gone["rc"] == 0


def test_old_builds_go_but_for_some_and_for_what_is_used(run: Run, tmp_path: Path) -> None:
    builds = []
    for version in ("1.0", "1.1"):
        for tool in ([], ["tool"]):
            wanted = {"name": "a", "packages": [f"base=={version}", *tool]}
            builds.append(build_of(run(wanted, keep_builds=1), "a"))
            if len(builds) == 1:
                sleeper = subprocess.Popen(
                    [builds[0] / "bin" / "python", "-c", "input()"], stdin=-1
                )
    try:
        assert [folder.exists() for folder in builds] == [True, False, True, True]
    finally:
        sleeper.kill()
        sleeper.wait()
    gone = run(keep_builds=1)
    assert gone["changed"] is True
    assert list((tmp_path / "venvs").iterdir()) == []
    assert [path for path in (tmp_path / "records").rglob("*") if path.is_file()] == []


def test_a_worker_takes_the_lock_of_another(run: Run, index: Index) -> None:
    prepared = run({"name": "a", "packages": ["tool"]}, phase="prepare", slice="pair")
    assert prepared["slice"] == "pair"
    index.add("base", "1.2")
    built = run({"name": "a", "packages": ["tool"]}, locks=prepared["locks"])
    assert built["venvs"]["a"]["packages"]["base"] == "1.1"


def test_an_index_that_is_away_leaves_the_old_environment(run: Run, index: Index) -> None:
    built = run({"name": "a", "packages": ["base==1.0"]})
    index.away = True
    failed = run({"name": "a", "packages": ["base==1.1"]}, {"name": "b", "packages": []})
    assert failed["failed"] is True
    assert "environment 'a'. The old one is still in use." in failed["msg"]
    assert "did not answer in 2 tries" in failed["msg"]
    assert build_of(built, "a").exists()
    index.away = False
    assert run({"name": "a", "packages": ["base==1.1"]}, {"name": "b"})["rc"] == 0


# In CI it is asked again; that there is an end tests/unit/…/python_env/test_plan.py has.
@pytest.mark.parametrize("behind_for", [1, pytest.param(9, marks=pytest.mark.night)])
def test_a_server_of_the_index_that_is_behind_is_asked_again(
    run: Run, index: Index, monkeypatch: pytest.MonkeyPatch, behind_for: int
) -> None:
    """What was resolved there is not on the page that the next server gives."""
    run({"name": "a", "packages": ["base"]})
    index.add("base", "1.2")
    answer = index.answer
    pages: list[bool] = []

    def differing(path: str, authorization: str) -> tuple[int, str, bytes]:
        if path.rstrip("/").endswith("/simple/base"):
            pages.append(1 <= len(pages) <= behind_for)
            if pages[-1]:
                newest = index.files["base"].pop("base-1.2-py3-none-any.whl")
                try:
                    return answer(path, authorization)
                finally:
                    index.files["base"]["base-1.2-py3-none-any.whl"] = newest
        return answer(path, authorization)

    monkeypatch.setattr(index, "answer", differing)
    result = run({"name": "b", "packages": ["base"]}, environment=CACHELESS)
    if behind_for == 1:
        assert result["venvs"]["b"]["packages"]["base"] == "1.2", result
    else:
        assert "there is no version of base==1.2" in result["text"], result
    assert pages == [False, True, behind_for > 1]


def test_one_that_cannot_be_built_does_not_keep_others_from_it(run: Run) -> None:
    result = run({"name": "a", "packages": ["nothing-of-this-name"]}, {"name": "b"})
    assert result["failed"] is True
    assert "environment 'a'" in result["msg"]
    assert "'b'" not in result["msg"]
    assert result["venvs"]["b"]["packages"] == {"pip": "99.0"}


def test_a_login_is_only_in_a_file(run: Run, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    # A word that Python writes otherwise than it is.
    index.login = "robot:canary\\for-the-index"
    seen: list[list[str]] = []
    real = _venv_build.run

    def spied(argv: list[str], environment: dict[str, str], **more: Any) -> Any:
        seen.append([*argv, *map(str, environment.values())])
        return real(argv, environment, **more)

    monkeypatch.setattr(_venv_build, "run", spied)
    login = {
        "index_credentials": [
            {"host": "127.0.0.1", "user": "robot", "password": "canary\\for-the-index"}
        ]
    }
    assert run({"name": "a", "packages": ["tool"]})["failed"] is True
    result = run({"name": "a", "packages": ["tool"]}, **login)
    assert result["rc"] == 0, result
    assert "canary" not in result["text"]
    assert not [word for call in seen for word in call if "canary" in word]
    records = [path for path in _venv_build.RECORDS.rglob("*") if path.is_file()]
    text = "".join(path.read_text() for path in records)
    assert "canary" not in text


def test_what_was_changed_by_hand_is_told_and_built_anew_when_asked(run: Run) -> None:
    wanted = {"name": "a", "packages": ["base==1.0"]}
    built = build_of(run(wanted), "a")
    site = next(built.glob("lib/python3*/site-packages"))
    (site / "base-1.0.dist-info").rename(site / "base-1.1.dist-info")
    told = run(wanted)
    assert told["changed"] is False
    assert "changed the environment 'a' by hand: base is 1.1 instead of 1.0" in told["text"]
    assert told["venvs"]["a"]["packages"]["base"] == "1.1"
    mended = run(wanted, rebuild=True)
    assert mended["venvs"]["a"]["packages"]["base"] == "1.0"
    assert build_of(mended, "a").name == f"{built.name}-2"
    assert run(wanted, rebuild=True)["changed"] is False


def test_code_of_a_tree_is_used_where_it_lies(run: Run, index: Index, tmp_path: Path) -> None:
    index.add("setuptools", "1.0", text=BACKEND)
    for name in ("one", "two"):
        release = tmp_path / "releases" / name
        release.mkdir(parents=True)
        (release / "mine.py").write_text(f"NAME = {name!r}\n")
        (release / "more.txt").write_text("base==1.0\n")
        (release / "pyproject.toml").write_text(
            '[project]\nname = "mine"\nversion = "1"\ndependencies = ["tool"]\n'
            '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools"\n'
        )
    (tmp_path / "trees").mkdir()
    wanted = {"name": "a", "editable": ["mine"], "requirements": "mine/more.txt"}
    missing = run(wanted)
    assert "no code tree 'mine'" in missing["msg"]
    builds = []
    for name in ("one", "two"):
        record = {"path": str(tmp_path / "releases" / name)}
        (tmp_path / "trees" / "mine.json").write_text(json.dumps(record))
        result = run(wanted)
        assert result["rc"] == 0, result
        assert result["venvs"]["a"]["packages"]["base"] == "1.0"
        builds.append(build_of(result, "a"))
    for name, build in zip(("one", "two"), builds, strict=True):
        argv = [build / "bin" / "python", "-c", "import mine; print(mine.NAME)"]
        assert subprocess.check_output(argv, text=True).strip() == name


# A backend that does no more than an editable install needs.
BACKEND = """
import base64, hashlib, os, zipfile
META = "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\nRequires-Dist: tool\\n"
def prepare_metadata_for_build_editable(folder, config_settings=None):
    os.mkdir(os.path.join(folder, "mine-1.dist-info"))
    with open(os.path.join(folder, "mine-1.dist-info", "METADATA"), "w") as f:
        f.write(META)
    return "mine-1.dist-info"
prepare_metadata_for_build_wheel = prepare_metadata_for_build_editable
def get_requires_for_build_editable(config_settings=None):
    return []
get_requires_for_build_wheel = get_requires_for_build_editable
def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(os.path.join(folder, "mine-1-py3-none-any.whl"), "w") as z:
        z.writestr("mine.pth", os.getcwd())
        z.writestr("mine-1.dist-info/METADATA", META)
        wheel = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        z.writestr("mine-1.dist-info/WHEEL", wheel)
        z.writestr("mine-1.dist-info/RECORD", "mine.pth,,\\n")
    return "mine-1-py3-none-any.whl"
build_wheel = build_editable
"""


# In CI tests/unit/…/python_env/test_frameworks.py has the index and the packages of each framework.
@pytest.mark.night
def test_pytorch_comes_from_its_own_index(run: Run, index: Index) -> None:
    cpu = Index()
    server = serve(cpu)
    try:
        # The trap: the ordinary index has it with CUDA.
        index.add("torch", "2.9.0", ["nvidia-cublas"])
        index.add("nvidia-cublas", "13.0")
        index.add("torch_xla", "2.9.0")
        cpu.add("torch", "2.9.0+cpu", ["base"])
        cpu.add("base", "0.1")
        url = f"http://127.0.0.1:{server.server_address[1]}/simple"
        wanted = {"name": "a", "framework": "torch_xla", "framework_version": "2.9.0"}
        result = run(wanted, torch_index_url=url)
        assert result["rc"] == 0, result
        found = result["venvs"]["a"]["packages"]
        assert found == {"torch": "2.9.0+cpu", "torch-xla": "2.9.0", "base": "1.1", "pip": "99.0"}
        index.add("lightning", "1.0", ["torch"])
        hidden = run({"name": "b", "packages": ["lightning"]}, torch_index_url=url)
        assert "would install CUDA's PyTorch" in hidden["msg"]
        named = run({"name": "b", "packages": ["lightning", "torch"]}, torch_index_url=url)
        assert named["venvs"]["b"]["packages"]["torch"] == "2.9.0+cpu"
    finally:
        server.shutdown()
        server.server_close()


# A backend that notes who runs it, beside what it builds from the environment variable.
NOSY = """
import os, zipfile
META = "Metadata-Version: 2.1\\nName: nosy\\nVersion: 1.0\\n"
def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{os.getuid()}\\n")
    with zipfile.ZipFile(os.path.join(folder, "nosy-1.0-py3-none-any.whl"), "w") as z:
        z.writestr("nosy.pth", "import os; open(os.environ.get('NOTES', os.devnull), 'a')"
                   ".write(f'{os.getuid()}\\\\n')")
        z.writestr("nosy-1.0.dist-info/METADATA", META)
        wheel = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        z.writestr("nosy-1.0.dist-info/WHEEL", wheel)
        z.writestr("nosy-1.0.dist-info/RECORD", "nosy.pth,,\\n")
    return "nosy-1.0-py3-none-any.whl"
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "nosy"\nbackend-path = ["."]\n'


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
class TestRootStandsApart:
    """What packages and owners do has no right of root's."""

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        """Make a home of another user."""
        folder = tmp_path / "home"
        folder.mkdir()
        account = pwd.getpwnam("nobody")
        os.chown(folder, account.pw_uid, account.pw_gid)
        return folder

    def test_neither_a_package_nor_its_build_runs_as_root(
        self, run: Run, index: Index, tmp_path: Path
    ) -> None:
        project = f'{PROJECT}[project]\nname = "nosy"\nversion = "1.0"\n'
        metadata = "Metadata-Version: 2.1\nName: nosy\nVersion: 1.0\n"
        files = {"nosy.py": NOSY, "pyproject.toml": project, "PKG-INFO": metadata}
        index.add_source("nosy", "1.0", files)
        notes = tmp_path / "notes"
        notes.touch()
        notes.chmod(0o666)
        wanted = {"name": "a", "packages": ["nosy"], "build_env": {"NOTES": str(notes)}}
        result = run(wanted, compile_bytecode=True, environment={"NOTES": str(notes)})
        assert result["rc"] == 0, result
        assert result["venvs"]["a"]["packages"]["nosy"] == "1.0"
        said = set(notes.read_text().split())
        assert said == {str(pwd.getpwnam(BUILDER).pw_uid)}
        marker = build_of(result, "a") / _venv_build.BUILDING
        owners = {
            path.lstat().st_uid for path in build_of(result, "a").rglob("*") if path != marker
        }
        assert 0 not in owners

    def test_a_folder_that_its_owner_swaps_takes_nothing_of_roots(
        self, run: Run, tmp_path: Path, home: Path
    ) -> None:
        theirs, roots = home / "aside", tmp_path / "roots"
        roots.mkdir()
        uv = tmp_path / "uv" / "test" / "bin" / "uv"
        real = uv.resolve()
        uv.unlink()
        # The owner swaps the folder between two calls of uv, which run with the owner's rights.
        uv.write_text(
            "#!/bin/sh\n"
            f'{real} "$@" || exit 1\n'
            'if [ "$1" = venv ]; then for last; do :; done\n'
            f'  mv "$last" {theirs}; ln -s {roots} "$last"\nfi\n'
        )
        uv.chmod(0o755)
        path = str(home / "venv")
        wanted = {"name": "a", "packages": ["tool"], "build_env": CACHELESS}
        told = run({**wanted, "user": "nobody", "path": path}, environment=CACHELESS)
        assert told["failed"] is True
        assert theirs.exists()
        assert list(roots.iterdir()) == []
        assert roots.stat().st_uid == 0

    def test_nothing_beside_an_environment_is_believed(
        self, run: Run, index: Index, tmp_path: Path, home: Path
    ) -> None:
        same = {"name": "b", "packages": ["tool"], "build_env": CACHELESS}
        wanted = {**same, "name": "a", "user": "nobody", "path": str(home / "venv")}
        (asked,) = run(wanted, phase="prepare")["locks"]
        (asked_by_root,) = run(same, phase="prepare")["locks"]
        evil = home / ".venv-0123456789ab"
        (evil / "bin").mkdir(parents=True)
        (evil / "bin" / "python").touch()
        for name in (asked, asked_by_root):
            stamp = {"wish": name, "lock": f"evil @ file://{home}/evil\n"}
            (evil / ".tpu-fleet.json").write_text(json.dumps(stamp))
            found = run(same, wanted, phase="prepare")["locks"]
            assert "evil" not in json.dumps(found)
        assert asked != asked_by_root

    def test_a_pipe_or_a_link_for_requirements_is_told(
        self, run: Run, tmp_path: Path, home: Path
    ) -> None:
        os.mkfifo(home / "pipe.txt")
        told = run({"name": "a", "requirements": str(home / "pipe.txt")})
        assert f"{home}/pipe.txt is not a plain file" in told["msg"]
        secret = tmp_path / "secret"
        secret.write_text("canary\n")
        secret.chmod(0o600)
        (home / "link.txt").symlink_to(secret)
        told = run({"name": "a", "requirements": str(home / "link.txt")})
        assert f"{home}/link.txt cannot be read" in told["msg"]
        assert "canary" not in told["text"]
        # The place is named that was declared, not what a link in it leads to.
        (home / "tree").symlink_to(tmp_path)
        told = run({"name": "a", "requirements": str(home / "tree" / "missing.txt")})
        assert f"{home}/tree/missing.txt is not a file on this host" in told["msg"]
        told = run({"name": "a", "editable": [str(home / "tree")]})
        assert f"{home}/tree has neither" in told["msg"]

    def test_a_program_that_its_owner_stops_has_a_limit(
        self, run: Run, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        uv = tmp_path / "uv" / "test" / "bin" / "uv"
        real = uv.resolve()
        uv.unlink()
        stop = '[ "$1 $(id -un)" != "venv nobody" ] || kill -STOP $$'
        uv.write_text(f'#!/bin/sh\n{stop}\nexec {real} "$@"\n')
        uv.chmod(0o755)
        wanted = {"name": "a", "packages": [], "user": "nobody", "path": str(home / "venv")}
        monkeypatch.setattr(_venv_build, "TOOL_SECONDS", 5.0)
        (why,) = run(wanted, environment=CACHELESS)["delayed"]
        assert "run as nobody: it took longer than its time limit" in why
        # Long before that limit, it is ended because it does nothing; others are built.
        monkeypatch.setattr(_venv_build, "TOOL_SECONDS", 7200.0)
        monkeypatch.setattr(_venv_build, "run", functools.partial(_venv_build.run, still=5.0))
        told = run(wanted, {"name": "b", "packages": ["tool"]}, environment=CACHELESS)
        assert (told["rc"], set(told["venvs"])) == (0, {"b"})
        (why,) = told["delayed"]
        assert "made no progress for 5 seconds: process" in why
        assert "was stopped by a signal" in why

    def test_roots_own_does_not_lie_where_others_can_change_it(self, run: Run, home: Path) -> None:
        told = run({"name": "a", "packages": [], "path": str(home / "venv")})
        assert f"others can change {home}" in told["msg"]


def test_a_file_that_the_index_exchanged_is_not_installed(run: Run, index: Index) -> None:
    locks = run({"name": "a", "packages": ["tool"]}, phase="prepare")["locks"]
    (lock,) = locks.values()
    assert all("--hash=sha256:" in line for line in lock.splitlines())
    index.add("base", "1.1", text="print('another')\n")
    told = run({"name": "a", "packages": ["tool"]}, resolved=locks)
    assert told["failed"] is True
    assert "Hash mismatch for `base==1.1`" in told["msg"]
    # Nor where another worker resolved it, and the index says something else to this one.
    told = run({"name": "a", "packages": ["tool"]}, locks=locks)
    assert told["failed"] is True
    assert "other files for base==1.1 than another worker found there" in told["msg"]
    assert told["venvs"] == {}


def test_a_strange_lock_of_another_worker_is_not_used(run: Run) -> None:
    (wanted,) = run({"name": "a", "packages": ["tool"]}, phase="prepare")["locks"]
    for line in ("evil @ file:///home/alice/evil", "-e /home/alice/evil", "--index-url http://x/"):
        result = run({"name": "a", "packages": ["tool"]}, locks={wanted: f"{line}\n"})
        assert result["venvs"]["a"]["packages"]["base"] == "1.1", result
        assert "holds what was not requested" in result["text"]


def of_another(run: Run, *more: str) -> dict[str, str]:
    """Return what another worker could say, with further lines."""
    ((wanted, lock),) = run({"name": "a", "packages": ["tool"]}, phase="prepare")["locks"].items()
    return {wanted: lock + "".join(f"{line}\n" for line in more)}


# In CI the test before has a lock that is not used, and tests/unit/…/python_env/test_plan.py
# what of a lock is taken.
@pytest.mark.night
def test_no_lock_of_another_worker_adds_a_package(run: Run, index: Index) -> None:
    index.add("evil", "1.0", text="print('evil')\n")
    locks = run({"name": "x", "packages": ["evil"]}, phase="prepare")["locks"]
    (evil,) = [line for lock in locks.values() for line in lock.splitlines() if "evil" in line]
    index.add("base", "1.2")
    for own in ({}, of_another(run)):
        result = run({"name": "a", "packages": ["tool"]}, locks=of_another(run, evil), resolved=own)
        assert result["rc"] == 0, result
        assert set(result["venvs"]["a"]["packages"]) == {"base", "tool", "pip"}
        # Ansible shows the same warning once in a process.
        assert own or "differs in packages that were not requested: evil" in result["text"]


@pytest.mark.night
def test_a_lock_of_another_worker_lacks_no_package_and_breaks_no_declaration(run: Run) -> None:
    ((wanted, lock),) = of_another(run).items()
    without = "".join(f"{line}\n" for line in lock.splitlines() if not line.startswith("pip"))
    result = run({"name": "a", "packages": ["tool"]}, locks={wanted: without})
    assert "pip" in result["venvs"]["a"]["packages"]
    assert "differs in packages" in result["text"]
    wish = {"name": "b", "packages": ["tool", "base==1.1"]}
    ((wanted, lock),) = run(wish, phase="prepare")["locks"].items()
    result = run(wish, locks={wanted: lock.replace("base==1.1", "base==1.0")})
    assert result["venvs"]["b"]["packages"]["base"] == "1.1"
    assert "its versions do not fit" in result["text"]


def test_the_same_versions_need_no_second_resolution(run: Run, index: Index) -> None:
    locks = of_another(run)
    index.asked.clear()
    (lock,) = locks.values()
    other = re.sub("[0-9a-f]{64}", "0" * 64, lock)
    result = run(
        {"name": "a", "packages": ["tool"]}, resolved=locks, locks=dict.fromkeys(locks, other)
    )
    assert result["rc"] == 0, result
    # Its own hashes hold, whatever the other one says.
    assert (_venv_build.RECORDS / "a.lock").read_text() == lock


def test_a_lock_without_hashes_says_versions_only(run: Run) -> None:
    (wanted,) = run({"name": "a", "packages": ["tool"]}, phase="prepare")["locks"]
    lock = "base==1.0\npip==99.0\ntool==2.0\n"
    result = run({"name": "a", "packages": ["tool"]}, locks={wanted: lock})
    assert result["venvs"]["a"]["packages"]["base"] == "1.0"
    kept = (_venv_build.RECORDS / "a.lock").read_text()
    assert "base==1.0 --hash=sha256:" in kept


@pytest.mark.parametrize(
    ("venv", "told"),
    [
        (
            {"framework": "jax", "framework_version": "0.11.0", "python": "3.11"},
            "framework_version 0.10.2",
        ),
        (
            {"framework": "torch_tpu", "framework_version": "0.2.0", "torch_version": "2.9.0"},
            "2.11.0 to",
        ),
        (
            {"python": "3.99"},
            "python = '3.99': this host has no Python 3.99, and uv could not provide it. It has "
            f"{PYTHON}",
        ),
        ({"user": "nobody-of-this-name"}, "is not a user of this host"),
        ({"requirements": "/nonexistent/file"}, "is not a file on this host"),
        ({"editable": ["/usr"]}, "is not a project"),
    ],
)
def test_wrong_wishes_are_told_by_name(run: Run, venv: dict[str, Any], told: str) -> None:
    result = run({"name": "a", "python": PYTHON, **venv}, python_list="/nonexistent.json")
    assert result["failed"] is True
    assert told in result["msg"], result["msg"]
    assert "'a'" in result["msg"]


def test_check_mode_changes_nothing(run: Run, tmp_path: Path) -> None:
    wanted = {
        "name": "a",
        "packages": ["base==1.0"],
        "user": "comes-later",
        "requirements": "/later",
    }
    told = run(wanted, check=True)
    assert (told["rc"], told["changed"]) == (0, True)
    assert told["diff"][0]["after"] == "base==1.0\n"
    assert not (tmp_path / "venvs").exists()
    assert run(wanted, phase="prepare", check=True)["rc"] == 0


def test_conda_gives_what_the_system_has_not(run: Run, tmp_path: Path) -> None:
    conda = tmp_path / "mamba"
    conda.write_text(
        "#!/bin/sh\n"
        f'echo "$@" > {tmp_path}/asked\n'
        'while [ "$1" != --prefix ]; do shift; done\n'
        'mkdir -p "$2/bin" && ln -s /usr/bin/python3 "$2/bin/python"\n'
    )
    conda.chmod(0o755)
    # The stub's Python is another one, which the check of what was built finds.
    more = {"python_source": "conda", "conda": str(conda), "conda_channel": "https://mirror/forge"}
    result = run({"name": "a", "python": "3.99"}, **more)
    assert f"Python is {PYTHON}" in result["msg"]
    asked = (tmp_path / "asked").read_text()
    assert "--override-channels --channel https://mirror/forge" in asked
    assert asked.endswith(f"--prefix {tmp_path}/pythons/conda-3.99 python=3.99\n")


@pytest.mark.parametrize("check", [False, True])
def test_a_conda_that_is_missing_is_said_before_anything_is_changed(
    run: Run, tmp_path: Path, check: bool
) -> None:
    more = {"python_source": "conda", "conda": "/opt/conda/bin/conda", "check": check}
    missing = run({"name": "a", "python": "3.99"}, {"name": "b"}, phase="prepare", **more)
    assert missing["failed"] is True
    assert missing["msg"] == (
        "fleet_venvs: venv 'a': python = '3.99' is not on this host, and "
        "fleet_python_source = 'conda' cannot provide it: fleet_conda = "
        "'/opt/conda/bin/conda' is not a program here. Let startup_script of the slice install it "
        "and set its whole path, or set fleet_python_source to uv."
    )
    assert not (tmp_path / "pythons").exists()
    assert run({"name": "b"}, phase="prepare", **more)["rc"] == 0, "the system has that Python"


# As torch_xla does, without its gigabytes.
LINKED = "import ctypes, sys\nctypes.CDLL('libpython%d.%d.so.1.0' % sys.version_info[:2])\n"


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, index: Index) -> Path:
    """Have a Python whose library the loader does not find, as uv's or conda's; give its folder."""
    index.add("torch", "2.9.0")
    index.add("torch_xla", "2.9.0", text=LINKED)
    python = tmp_path / "own" / "bin" / f"python{PYTHON}"
    python.parent.mkdir(parents=True)
    # Its version has no other Python on this host, and its library is its own if it is anybody's.
    real = _venv_build.LIBRARY
    prefix = f"import sys; sys.base_prefix = {str(tmp_path / 'own')!r}\n"
    hidden = "import ctypes\ndef none(name): raise OSError(name)\nctypes.CDLL = none\n"
    monkeypatch.setattr(_venv_build, "LIBRARY", prefix + hidden + real)
    return tmp_path / "own" / "lib"


def test_torch_xla_without_the_library_of_python_is_said_before_the_download(
    run: Run, index: Index, loader: Path
) -> None:
    result = run({"name": "xla", "framework": "torch_xla", "framework_version": "2.9.0"})
    assert result["failed"] is True
    assert "environment 'xla'" in result["msg"]
    assert f"python = {PYTHON!r}: torch_xla needs libpython{PYTHON}.so.1.0" in result["msg"]
    assert f"package libpython{PYTHON} in fleet_packages" in result["msg"]
    assert index.files_asked() == [], "nothing was downloaded"


def test_torch_xla_finds_the_library_that_its_python_brings(run: Run, loader: Path) -> None:
    loader.mkdir()
    library = loader / f"libpython{PYTHON}.so.1.0"
    found = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    (real,) = {line.split()[-1] for line in found.stdout.splitlines() if f"{library.name} " in line}
    shutil.copy(real, library)
    result = run({"name": "xla", "framework": "torch_xla", "framework_version": "2.9.0"})
    assert result["rc"] == 0, result["text"]
    loaded = "print([line for line in open('/proc/self/maps') if 'libpython' in line])"
    python = build_of(result, "xla") / "bin" / "python"
    said = subprocess.run([python, "-c", loaded], capture_output=True, text=True, check=True)
    assert str(library) in said.stdout
