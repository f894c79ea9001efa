"""What playbook collect finds on a worker."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "playbooks/files/what_a_run_left.py"


@pytest.fixture
def script(tmp_path: Path) -> ModuleType:
    """The script, on a worker in a folder."""
    spec = importlib.util.spec_from_file_location("what_a_run_left", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.__dict__.update(
        STATE=tmp_path / "state", LOGS=tmp_path / "logs", SPARE=tmp_path / "spare"
    )
    (tmp_path / "state/digits").mkdir(parents=True)
    (tmp_path / "logs/digits").mkdir(parents=True)
    (tmp_path / "logs/digits/run.log").write_text("line\n")
    (tmp_path / "work/plots").mkdir(parents=True)
    (tmp_path / "work/plots/a").write_text("a")
    (tmp_path / "work/plots/shadow").symlink_to("/etc/shadow")
    status = {"workdir": str(tmp_path / "work")}
    (tmp_path / "state/digits/status.json").write_text(json.dumps(status))
    return module


@pytest.mark.parametrize(
    ("workdir", "declared", "base", "name"),
    [
        ("/home/a", "plots", "/home/a", "plots"),
        ("/home/a", "./plots/", "/home/a", "plots"),
        ("/home/a", "plots/../best", "/home/a", "best"),
        ("/home/a", "../b", "/", "home/b"),
        ("/home/a", "../../../..", "/", ""),
        ("/home/a", "/data/x", "/", "data/x"),
        ("", "/data/x", "/", "data/x"),
    ],
)
def test_where_a_result_is(
    script: ModuleType, workdir: str, declared: str, base: str, name: str
) -> None:
    assert script.place_of(workdir, declared) == ("results/", base, name)


def test_files_one_by_one_without_links(script: ModuleType, tmp_path: Path) -> None:
    found = script.look("digits", ["plots", "none", str(tmp_path / "work/plots/a")], True)
    assert found["left"] == [
        ("", str(tmp_path / "logs/digits"), "run.log"),
        ("", str(tmp_path / "state/digits"), "status.json"),
        ("results/", str(tmp_path / "work"), "plots/a"),
        ("results/", "/", str(tmp_path / "work/plots/a").lstrip("/")),
    ]
    assert found["missing"] == ["none"]


def test_nothing_is_missed_of_a_run_that_is_not_there(script: ModuleType) -> None:
    assert script.look("word", ["plots"], True) == {
        "runs": ["digits"],
        "rsync": False,
        "left": [],
        "missing": [],
    }


def test_checkpoints_that_would_go_with_the_machine(script: ModuleType, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    status = {"workdir": str(tmp_path / "work"), "checkpoint_dir": str(saved)}
    (tmp_path / "state/digits/status.json").write_text(json.dumps(status))
    entry = ("results/", "/", str(saved).lstrip("/"))
    own = script.goes_with_the_machine
    script.__dict__["goes_with_the_machine"] = lambda folder: folder == str(saved)
    assert entry in script.look("digits", [], False, True)["left"] or not script.shutil.which(
        "rsync"
    )
    (saved / "1").write_text("x")
    assert (*entry[:2], f"{entry[2]}/1") in script.look("digits", [], True, True)["left"]
    assert len(script.look("digits", [], True)["left"]) == 2
    # Another disk, a bucket, and a folder that is not there.
    assert [own(place) for place in ("/proc", "gs://bucket/x", str(tmp_path / "none"))] == [
        False,
        False,
        False,
    ]


def test_the_newer_status_counts_when_the_disk_was_full(script: ModuleType, tmp_path: Path) -> None:
    for place, serial, workdir in (("state", 4, "/old"), ("spare", 5, "/new")):
        status = tmp_path / place / "r" / "status.json"
        status.parent.mkdir(parents=True)
        status.write_text(json.dumps({"serial": serial, "workdir": workdir}))
    assert script.said_of("r", "workdir") == "/new"
    (tmp_path / "state/r/status.json").write_text('{"serial": 6, "workdir": "/back"}')
    assert script.said_of("r", "workdir") == "/back"
