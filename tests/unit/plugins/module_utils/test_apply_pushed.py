"""What a host remembers of what a controller pushed to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import named, pushed, record
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.place import Place
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.stamp import Watch
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.wish import Wish

GIVEN = {"host_base": "h1", "training_run": "t1"}
WISH = Wish("w0", list(GIVEN), "c1", "v1", "", {"version": "2"})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "file").write_text("as declared")
    watch = Watch(
        (str(tmp_path / "etc"),), files=(), homes=(), units=(), records=(), environments=()
    )
    return Place(tmp_path / "state", units=tmp_path / "units", watch=watch)


def begins(place: Place, **given: str) -> Any:
    return pushed.begins(place, WISH, {**GIVEN, **given})["roles"]


def test_nothing_is_to_be_done_twice(place: Place) -> None:
    assert begins(place) == ["host_base", "training_run"]
    pushed.done(place, ["host_base"])
    # The second play has not ended, or never came.
    assert begins(place) == ["training_run"]
    pushed.done(place, ["training_run"])
    assert begins(place) == []
    assert begins(place, training_run="t2") == ["training_run"]


def test_who_was_never_told_that_it_was_done_does_it_again(place: Place) -> None:
    begins(place)
    assert begins(place) == ["host_base", "training_run"]


def test_what_counts_is_what_was_given_when_it_began(place: Place) -> None:
    begins(place)
    pushed.done(place, list(GIVEN))
    begins(place, host_base="h2")
    pushed.done(place, list(GIVEN))
    assert begins(place, host_base="h2") == []
    assert begins(place) == ["host_base"]


@pytest.mark.parametrize(
    "change",
    [
        lambda place: Path(place.watch.trees[0], "file").write_text("altered"),
        lambda place: Path(place.watch.trees[0], "file").unlink(),
        lambda place: place.stamp.unlink(),
    ],
)
def test_what_was_altered_is_a_reason_for_everything(
    place: Place, change: Callable[[Place], object]
) -> None:
    begins(place)
    pushed.done(place, list(GIVEN))
    change(place)
    assert begins(place) == ["host_base", "training_run"]


def test_what_a_peer_needed_is_noted_as_it_looks_now(place: Place) -> None:
    begins(place)
    pushed.done(place, list(GIVEN))
    assert begins(place) == []
    Path(place.watch.trees[0], "of a role").write_text("new")
    pushed.done(place, list(GIVEN))
    assert begins(place) == []


def test_a_reboot_in_the_middle_leaves_it_undone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins(place)
    for module in (pushed, record):
        monkeypatch.setattr(module, "boot_id", lambda: "another boot")
    pushed.done(place, list(GIVEN))
    assert begins(place) == ["host_base", "training_run"]


def test_what_was_asked_of_the_host_itself_does_not_count_any_more(place: Place) -> None:
    old = replace(WISH, roles=["host_base", "python_env"])
    other = replace(WISH, roles=["nfs_share"])
    place.state.mkdir()
    place.wishes.write_text(json.dumps([asdict(old), asdict(other)]))
    begins(place)
    assert [wish["roles"] for wish in json.loads(place.wishes.read_text())] == [["nfs_share"]]


def test_hashes_say_nothing_elsewhere(place: Place) -> None:
    begins(place, host_base="a-hash-of-a-secret")
    for path in place.state.rglob("*"):
        assert path.is_dir() or "a-hash-of-a-secret" not in path.read_text()


def test_what_records_name_is_looked_at(tmp_path: Path) -> None:
    venv = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    (venv / "idna-3.10.dist-info").mkdir(parents=True)
    about = {"path": "/opt/x", "files": ["/home/a/.key"], "says": "no /path", "n": [1]}
    (tmp_path / "one.json").write_text(json.dumps(about))
    (tmp_path / "half.json").write_text("{")
    (tmp_path / "of-ada.json").write_text(json.dumps({"owner": "ada", "dest": "/home/ada/x"}))
    (tmp_path / "dotfiles").mkdir()
    odd: list[object] = [".zshrc", "../x", "/etc/shadow", 5, "a/../../b", ""]
    (tmp_path / "dotfiles/ada.json").write_text(json.dumps({"links": odd}))
    records = [f"{tmp_path}/*.json"]
    records_of_root = [f"{tmp_path}/{name}.json" for name in ("half", "of-ada", "one")]
    assert named.paths(records) == {
        "root": [*records_of_root, "/opt/x", "/home/a/.key"],
        "ada": ["/home/ada/x"],
    }
    assert named.links("ada", f"{tmp_path}/dotfiles") == [".zshrc"]
    assert named.links("bob", f"{tmp_path}/dotfiles") == []
    (tmp_path / "one.json").write_text(json.dumps({"build": str(tmp_path / "venv")}))
    build = f"{tmp_path}/venv"
    assert named.packages(records) == {f"packages in {build}": ("root", build)}
    before = named.installed(build)
    (venv / "tomli-2.dist-info").mkdir()
    assert named.installed(build) != before
