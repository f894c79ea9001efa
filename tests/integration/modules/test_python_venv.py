"""Environments, built by the real uv from an index made up for the test."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tpu.fleet.plugins.module_utils import _venv_build
from ansible_collections.tpu.fleet.plugins.modules import python_venv
from package_index import Index, serve

ROOT = Path(__file__).resolve().parents[3]

PYTHON = subprocess.run(
    ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
    capture_output=True,
    text=True,
    check=True,
).stdout.strip()
ME = pwd.getpwuid(os.getuid()).pw_name

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
    monkeypatch.setattr(python_venv, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(python_venv, "TREES", tmp_path / "trees")
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
        args = {
            "venvs": [
                {"path": str(tmp_path / "venvs" / venv["name"]), "owner": ME, **venv}
                for venv in venvs
            ],
            "default_python": PYTHON,
            "uv_version": "test",
            "uv_dir": str(tmp_path / "uv"),
            "cache_dir": str(tmp_path / "cache"),
            "python_dir": str(tmp_path / "pythons"),
            "compile_bytecode": False,
            "index_url": f"{index.url}/simple",
            "accelerator": "cpu",
            # uv itself tries four times; that is enough for a test.
            "environment": {"UV_HTTP_RETRIES": "0"},
            "tries": 2,
            "prune": True,
            **more,
            "_ansible_check_mode": check,
        }
        with patch_module_args(args), pytest.raises(SystemExit) as ended:
            python_venv.main()
        printed = capsys.readouterr()
        return {
            "rc": ended.value.code,
            "text": printed.out + printed.err,
            **json.loads(printed.out),
        }

    return once


def build_of(result: dict[str, Any], name: str) -> Path:
    return Path(result["venvs"][name]["build"])


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


def test_old_builds_go_but_for_some_and_for_what_is_used(run: Run, tmp_path: Path) -> None:
    builds = []
    for version in ("1.0", "1.1"):
        for tool in ([], ["tool"]):
            wanted = {"name": "a", "packages": [f"base=={version}", *tool]}
            builds.append(build_of(run(wanted, keep=1), "a"))
            if len(builds) == 1:
                sleeper = subprocess.Popen(
                    [builds[0] / "bin" / "python", "-c", "input()"], stdin=-1
                )
    try:
        assert [folder.exists() for folder in builds] == [True, False, True, True]
    finally:
        sleeper.kill()
        sleeper.wait()
    gone = run(keep=1)
    assert gone["changed"] is True
    assert list((tmp_path / "venvs").iterdir()) == []
    assert list((tmp_path / "records").iterdir()) == []


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
    real = subprocess.run

    def spied(argv: list[str], **more: Any) -> Any:
        seen.append([*argv, *map(str, more["env"].values())])
        return real(argv, **more)

    monkeypatch.setattr(_venv_build.subprocess, "run", spied)
    login = {
        "index_logins": {"127.0.0.1": "robot"},
        "index_passwords": {"127.0.0.1": "canary\\for-the-index"},
    }
    assert run({"name": "a", "packages": ["tool"]})["failed"] is True
    result = run({"name": "a", "packages": ["tool"]}, **login)
    assert result["rc"] == 0, result
    assert "canary" not in result["text"]
    assert not [word for call in seen for word in call if "canary" in word]
    text = "".join(path.read_text() for path in python_venv.RECORDS.iterdir())
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
        assert "would bring CUDA's PyTorch" in hidden["msg"]
        named = run({"name": "b", "packages": ["lightning", "torch"]}, torch_index_url=url)
        assert named["venvs"]["b"]["packages"]["torch"] == "2.9.0+cpu"
    finally:
        server.shutdown()
        server.server_close()


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
        ({"python": "3.99"}, f"no Python 3.99, and uv could not give it one. It has {PYTHON}"),
        ({"owner": "nobody-of-this-name"}, "is no user of this host"),
        ({"requirements": "/nonexistent/file"}, "is no file on this host"),
        ({"editable": ["/usr"]}, "is no project"),
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
        "owner": "comes-later",
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
