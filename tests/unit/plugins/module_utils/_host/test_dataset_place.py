"""The folder of a data set, and the link to it."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import dataset_place
from ansible_collections.tpu.fleet.plugins.module_utils._host.as_user import UserError
from ansible_collections.tpu.fleet.plugins.module_utils._host.dataset_place import Place, lacking

ME = pwd.getpwuid(os.getuid())
ID = "0123456789abcdef"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "data" / "set"))


def test_a_path_leads_to_the_content_that_was_switched_to(place: Place) -> None:
    place.prepare(ME, None)
    assert not place.has(ID)
    place.whole(ID).mkdir()
    (place.whole(ID) / "a").write_text("new")
    (place.folder / "old").mkdir()
    place.switch(ID)
    assert (place.path / "a").read_text() == "new"
    assert not (place.folder / "old").exists()
    place.prepare(ME, None)
    place.remove()
    assert list(place.path.parent.iterdir()) == []


def test_a_private_one_is_closed_to_others(place: Place) -> None:
    place.prepare(ME, ME.pw_gid)
    assert place.folder.stat().st_mode & 0o7777 == 0o2750


@pytest.mark.parametrize("kind", ["folder", "link", "file beside"])
def test_what_others_put_there_is_refused(place: Place, kind: str) -> None:
    place.path.parent.mkdir()
    if kind == "folder":
        place.path.mkdir()
    elif kind == "link":
        place.path.symlink_to("/etc")
    else:
        place.folder.write_text("mine")
    with pytest.raises(UserError, match=str(place.path)):
        place.prepare(ME, None)
    place.remove()
    assert len(list(place.path.parent.iterdir())) == 1


def test_a_folder_that_users_can_change_is_refused(place: Place) -> None:
    place.path.parent.mkdir()
    place.path.parent.chmod(0o777)
    with pytest.raises(UserError, match="can be changed by others"):
        place.prepare(ME, None)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what another user owns")
OTHER = 4321


@needs_root
@pytest.mark.parametrize("kind", ["link", "link elsewhere", "folder", "file", "all of it"])
def test_in_memory_names_that_another_user_took_are_moved_away(place: Place, kind: str) -> None:
    memory = place.path.parent
    memory.mkdir()
    memory.chmod(0o1777)
    if kind in ("folder", "all of it"):
        (place.folder / ID).mkdir(parents=True)
        (place.folder / ID / "a").write_text("poisoned")
        (place.folder / "current").symlink_to(ID)
        os.chown(place.folder, OTHER, OTHER)
    if kind == "file":
        place.path.write_text("hers")
    elif kind != "folder":
        place.path.symlink_to("/etc" if kind == "link elsewhere" else place.link)
    if os.path.lexists(place.path):
        os.chown(place.path, OTHER, OTHER, follow_symlinks=False)
    assert not place.has(ID)
    place.prepare(ME, None)
    assert (place.path.lstat().st_uid, place.folder.stat().st_uid) == (0, ME.pw_uid)
    assert str(place.path.readlink()) == place.link
    assert not place.has(ID)
    place.whole(ID).mkdir()
    place.switch(ID)
    assert place.has(ID)
    assert list(place.path.iterdir()) == []
    for name in (place.path, place.folder):
        hers = list(memory.glob(f".{name.name}-moved-away-*/{name.name}"))
        assert [one.lstat().st_uid for one in hers] in ([], [OTHER])


@needs_root
@pytest.mark.parametrize("name", ["path", "folder"])
def test_a_data_set_by_a_link_or_a_folder_of_another_user_is_none(place: Place, name: str) -> None:
    place.prepare(ME, None)
    place.whole(ID).mkdir()
    place.switch(ID)
    assert place.has(ID)
    os.chown(getattr(place, name), OTHER, OTHER, follow_symlinks=False)
    assert not place.has(ID)


def test_in_memory_roots_own_stays(place: Place) -> None:
    place.path.parent.mkdir()
    place.path.parent.chmod(0o1777)
    place.path.mkdir()
    with pytest.raises(UserError, match="is there already"):
        place.prepare(ME, None)
    assert place.path.is_dir()


def test_why_a_data_set_is_not_there(place: Place, tmp_path: Path) -> None:
    path = str(place.path)
    assert lacking("set", path, ID, tmp_path) == "data set set: it is not staged yet"
    said = {"id": ID, "says": "1.0 GiB of 2.0 GiB are here"}
    (tmp_path / "set.json").write_text(json.dumps(said))
    assert lacking("set", path, ID, tmp_path) == "data set set: 1.0 GiB of 2.0 GiB are here"
    assert lacking("set", path, "f" * 16, tmp_path) == "data set set: it is not staged yet"
    (tmp_path / "set.json").write_text("[]")
    assert dataset_place.status_of("set", tmp_path) == {}
