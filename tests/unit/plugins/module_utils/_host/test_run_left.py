"""What playbook collect finds on a worker."""

from __future__ import annotations

import getpass
import json
import os
import pwd
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import run_left
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_left import (
    Entry,
    absent,
    left_by,
    place_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._host.runs import RunFiles


@pytest.fixture
def worker(open_path: Path) -> Path:
    """Return a folder in place of a worker's root, with a run."""
    (open_path / "var/lib/tpu-fleet/runs/digits").mkdir(parents=True)
    (open_path / "var/log/tpu-fleet/runs/digits").mkdir(parents=True)
    (open_path / "var/log/tpu-fleet/runs/digits/run.log").write_text("line\n")
    (open_path / "work/plots").mkdir(parents=True)
    (open_path / "work/plots/a").write_text("a")
    (open_path / "work/plots/shadow").symlink_to("/etc/shadow")
    status = {"workdir": str(open_path / "work"), "user": getpass.getuser()}
    (open_path / "var/lib/tpu-fleet/runs/digits/status.json").write_text(json.dumps(status))
    return open_path


def look(root: Path, run: str, declared: list[str], *options: bool) -> dict[str, Any]:
    return left_by(run, declared, *options, root=str(root))


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
def test_where_a_result_is(workdir: str, declared: str, base: str, name: str) -> None:
    assert place_of(workdir, declared) == ("results/", base, name)


def test_where_its_versions_come_from_is_left(worker: Path) -> None:
    place = worker / "var/lib/tpu-fleet/runs/digits"
    (place / "code").mkdir()
    (place / "code/9f3a.json").write_text("{}")
    found = look(worker, "digits", [], True)
    assert ["", str(place), "code/9f3a.json"] in [list(one) for one in found["left"]]


def test_files_one_by_one_without_links(worker: Path) -> None:
    found = look(worker, "digits", ["plots", "none", str(worker / "work/plots/a")], True)
    assert [tuple(one) for one in found["left"]] == [
        ("", str(worker / "var/log/tpu-fleet/runs/digits"), "run.log"),
        ("", str(worker / "var/lib/tpu-fleet/runs/digits"), "status.json"),
        ("results/", str(worker / "work"), "plots/a"),
        ("results/", "/", str(worker / "work/plots/a").lstrip("/")),
    ]
    assert found["missing"] == ["none"]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_users_link_leads_root_nowhere(worker: Path, one_by_one: bool) -> None:
    nobody, user = pwd.getpwnam("nobody"), "var/lib/tpu-fleet/runs/digits/status.json"
    secret = worker / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key").write_text("secret")
    (worker / "work/leads").symlink_to(secret)
    (worker / user).write_text(json.dumps({"workdir": f"{worker}/work", "user": "nobody"}))
    os.chown(worker / "work", nobody.pw_uid, nobody.pw_gid)
    declared = ["leads/key", "leads", str(secret / "key"), "plots"]
    found = look(worker, "digits", declared, one_by_one)
    assert found["user"] == "nobody"
    assert {"leads/key", str(secret / "key")} <= set(found["missing"])
    assert "plots" not in found["missing"]
    names = {name for _to, _base, name in found["left"]}
    assert not any("secret" in name or name == "leads/key" for name in names)
    # Root itself would have gone there.
    (worker / user).write_text(json.dumps({"workdir": f"{worker}/work", "user": "root"}))
    assert "leads/key" not in look(worker, "digits", declared, one_by_one)["missing"]


def test_nothing_is_missed_of_a_run_that_is_not_there(worker: Path) -> None:
    assert look(worker, "word", ["plots"], True) == {
        "runs": ["digits"],
        "user": "root",
        "rsync": False,
        "left": [],
        "missing": [],
    }


def test_checkpoints_that_would_go_with_the_machine(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = worker / "saved"
    saved.mkdir()
    status = {"workdir": str(worker / "work"), "checkpoint_dir": str(saved)}
    status["user"] = getpass.getuser()
    (worker / "var/lib/tpu-fleet/runs/digits/status.json").write_text(json.dumps(status))
    entry = ("results/", "/", str(saved).lstrip("/"))
    own = run_left.goes_with_the_machine
    monkeypatch.setattr(run_left, "goes_with_the_machine", lambda folder: folder == str(saved))
    left = [tuple(one) for one in look(worker, "digits", [], False, True)["left"]]
    assert entry in left or not shutil.which("rsync")
    (saved / "1").write_text("x")
    left = [tuple(one) for one in look(worker, "digits", [], True, True)["left"]]
    assert (*entry[:2], f"{entry[2]}/1") in left
    assert len(look(worker, "digits", [], True)["left"]) == 2
    # Another disk, a bucket, and a folder that is not there.
    assert [own(place) for place in ("/proc", "gs://bucket/x", str(worker / "none"))] == [
        False,
        False,
        False,
    ]


def test_the_newer_status_counts_when_the_disk_was_full(worker: Path) -> None:
    for place, serial, workdir in (("var/lib", 4, "/old"), ("run", 5, "/new")):
        status = worker / place / "tpu-fleet/runs/r/status.json"
        status.parent.mkdir(parents=True)
        status.write_text(json.dumps({"serial": serial, "workdir": workdir}))
    assert RunFiles(worker).status("r")["workdir"] == "/new"
    kept = worker / "var/lib/tpu-fleet/runs/r/status.json"
    kept.write_text('{"serial": 6, "workdir": "/back"}')
    assert RunFiles(worker).status("r")["workdir"] == "/back"


def answer(left: bool, *missing: str) -> dict[str, Any]:
    entries = [Entry("", "/l", "run.log")] if left else []
    return {"runs": ["digits"], "left": entries, "missing": [*missing]}


def test_a_run_that_nobody_has_is_absent() -> None:
    assert absent("words", [answer(False)], succeeded=False) == (
        "There is no run words. There is digits."
    )
    assert absent("digits", [answer(False), answer(True)], succeeded=False) == ""


def test_a_result_is_absent_when_the_run_succeeded_and_no_worker_has_it() -> None:
    on_one, on_none = [answer(True), answer(True, "a")], [answer(True, "a", "b"), answer(True, "b")]
    assert absent("digits", on_one, succeeded=True) == ""
    assert absent("digits", on_none, succeeded=False) == ""
    assert absent("digits", on_none, succeeded=True).startswith(
        "digits has finished and left no b."
    )
